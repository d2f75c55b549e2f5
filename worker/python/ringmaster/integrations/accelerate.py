"""Accelerate for elastic training: its mixed precision and helpers, with the steps of a job.

    from ringmaster.integrations.accelerate import Accelerator

    accelerator = Accelerator(mixed_precision="bf16")
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    job = accelerator.join(global_batch=256)
    for batch in job.batches(dataset, steps=1000):
        loss = loss_fn(model(batch.x), batch.y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

The body of a loop need not change: the job steps the optimizer and the schedulers, so the last three calls do nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import accelerate
import torch
from accelerate.optimizer import AcceleratedOptimizer
from accelerate.state import PartialState

import ringmaster

from ..errors import UserError
from ..job import Job


class Accelerator(accelerate.Accelerator):
    """accelerate.Accelerator for one model and one optimizer. Rank 0 of the current world is the main process."""

    job: Job | None = None

    def __init__(self, *positional: Any, **named: Any):
        super().__init__(*positional, **named)
        if self.num_processes > 1 or self.gradient_accumulation_steps > 1:
            raise UserError("an Accelerator in a job with spec.elasticity.mode: InPlace must have one process and "
                            "no gradient_accumulation_steps, because the job sums over ranks and micro-batches (micro_batch of join())")
        self._max_norm: float | None = None
        self._norm = torch.tensor(float("nan"))

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer, device_placement: bool | None = None) -> Any:
        if not isinstance(optimizer, OptimizerOfJob):
            optimizer = OptimizerOfJob(optimizer)
        return super().prepare_optimizer(optimizer, device_placement)

    def join(self, **settings: Any) -> Job:
        """Joins the job. Call it after prepare(). `settings` are the arguments of ringmaster.join(). Adds prepared
        schedulers to Job.state."""
        if len(self._models) != 1 or len(self._optimizers) != 1:
            raise UserError(f"join() was called with {len(self._models)} models and {len(self._optimizers)} optimizers "
                            "prepared; a job trains one model with one optimizer; call accelerator.prepare() with them first")
        model = self.unwrap_model(self._models[0], keep_fp32_wrapper=True)
        optimizer = self._optimizers[0].optimizer
        schedulers = [prepared.scheduler for prepared in self._schedulers]
        state = {f"scheduler {number}": scheduler for number, scheduler in enumerate(schedulers)}
        state.update(settings.pop("state", None) or {})
        self.job = ringmaster.join(model, optimizer, scaler=self.scaler, state=state, **settings)
        self.job.before_update(self._clip)
        for scheduler in schedulers:
            self.job.after_step(scheduler.step)
        self._follow()
        return self.job

    def backward(self, loss: torch.Tensor, weight: float | None = None, **_: Any) -> None:
        """Calls Job.backward()."""
        if self.job is None:
            raise UserError("accelerator.backward() was called before accelerator.join()")
        self._follow()
        self.job.backward(loss, weight)

    def clip_grad_norm_(self, parameters: Iterable[torch.Tensor], max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """Makes the job clip the gradients before updates; returns the gradient norm of the previous step."""
        if norm_type != 2:
            raise UserError(f"clip_grad_norm_() was given norm_type={norm_type}; a job clips by the norm of type 2")
        self._max_norm = max_norm
        return self._norm

    def clip_grad_value_(self, parameters: Any, clip_value: float) -> None:
        raise UserError("clip_grad_value_() would clip this rank's part of the gradients only; use clip_grad_norm_()")

    def _clip(self) -> None:
        if self._max_norm is not None:
            parameters = [parameter for group in self.job.optimizer.param_groups for parameter in group["params"]]
            self._norm = torch.nn.utils.clip_grad_norm_(parameters, self._max_norm)

    def _follow(self) -> None:
        follow_rank(self, self.job)


class OptimizerOfJob(AcceleratedOptimizer):
    """Replaces the optimizer in a training loop. The job steps the optimizer and then the schedulers."""

    _is_accelerate_prepared = True

    def __init__(self, optimizer: torch.optim.Optimizer):
        super().__init__(optimizer, device_placement=False)

    def step(self, closure: Any = None) -> None:
        pass

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        pass

    @property
    def step_was_skipped(self) -> bool:
        return True  # so that prepared schedulers do nothing


def follow_rank(accelerator: accelerate.Accelerator, job: Job) -> None:
    """Makes rank 0 of the current world the main process."""
    for state in (PartialState(), accelerator.state):
        state.process_index = job.rank
