"""Elastic training of a LightningModule, with the steps of a job instead of Lightning's Trainer.

    from ringmaster.integrations.lightning import fit

    fit(module, train_loader, validation_loader, max_steps=1000, global_batch=256, monitor="val_loss")

The module stays unchanged: configure_optimizers(), training_step(), validation_step() and log() behave as with the
Trainer. The job replaces the Trainer, so callbacks, loggers, strategies and self.trainer are not available. Works with
`lightning` and with `pytorch_lightning`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Subset

import ringmaster

from ..batches import Batch
from ..errors import UserError
from ..job import Job

# Methods of a module that would change a step if the Trainer called them.
_OF_STEPS = ("backward", "configure_gradient_clipping", "lr_scheduler_step", "on_after_backward", "on_before_backward",
             "on_before_optimizer_step", "on_before_zero_grad", "on_train_batch_start", "optimizer_step",
             "optimizer_zero_grad", "transfer_batch_to_device")


def fit(module: torch.nn.Module, train: Any, validation: DataLoader | None = None, *, max_steps: int, global_batch: int,
        micro_batch: int | None = None, seed: int = 0, validate_every: int = 500, monitor: str = "val_loss",
        gradient_clip_val: float | None = None, precision: str = "32-true", num_workers: int | None = None) -> Job:
    """Joins the job, trains until `max_steps` are applied, and returns when all ranks are done.

    train: a DataLoader or a map-style data set. global_batch, micro_batch, seed: as in ringmaster.join().
    validation: each rank validates its part after every `validate_every` steps and after the last step; the value that
        validation_step() logs as `monitor` is averaged over samples and ranks.
    precision: "32-true" or "bf16-mixed".
    num_workers: number of processes that load ahead; None: the DataLoader's, or 0.
    """
    _check(module, precision)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module.to(device)
    optimizer, schedulers = _configured(module)
    job = ringmaster.join(module, optimizer, global_batch=global_batch, micro_batch=micro_batch, seed=seed,
                          state={f"scheduler {number}": scheduler for number, (scheduler, _) in enumerate(schedulers)})
    for scheduler, interval in schedulers:
        job.after_step(_stepping(job, scheduler, interval or _steps_of_epoch(train, global_batch)))
    if gradient_clip_val:
        job.before_update(lambda: torch.nn.utils.clip_grad_norm_(module.parameters(), gradient_clip_val))
    mixed = precision == "bf16-mixed"
    if validation is not None:
        job.evaluate(_validating(module, validation, monitor, device, mixed), every=validate_every, name=monitor)
    module.train()
    for batch in job.batches(train, steps=max_steps, num_workers=num_workers):
        _log_into(module, lambda values: job.log(**values))
        with torch.autocast(device.type, torch.bfloat16, enabled=mixed):
            made = module.training_step(batch.data, job.steps)
        job.backward(_loss_of(made))
    return job


def _check(module: torch.nn.Module, precision: str) -> None:
    base = next((one for one in type(module).__mro__ if one.__name__ == "LightningModule"), None)
    if base is None:
        raise UserError(f"fit() was given a {type(module).__name__}, which is not a LightningModule")
    if precision not in ("32-true", "bf16-mixed"):
        raise UserError(f"fit() was given precision={precision!r}; use '32-true' or 'bf16-mixed'")
    if not module.automatic_optimization:
        raise UserError(f"{type(module).__name__} has automatic_optimization=False, but the job makes the steps; write "
                        "the loop with ringmaster.join() instead")
    changed = [name for name in _OF_STEPS if getattr(type(module), name, None) is not getattr(base, name, None)]
    if changed:
        raise UserError(f"{type(module).__name__} overrides {', '.join(changed)}, which fit() does not call; write the loop "
                        "with ringmaster.join() instead")


def _configured(module: torch.nn.Module) -> tuple[torch.optim.Optimizer, list[tuple[Any, int]]]:
    """Returns the optimizer, and each scheduler with its interval in steps; 0 means once per epoch."""
    made = module.configure_optimizers()
    schedulers: Any = []
    if isinstance(made, dict):
        made, schedulers = made["optimizer"], made.get("lr_scheduler") or []
    elif isinstance(made, (list, tuple)) and len(made) == 2 and isinstance(made[0], (list, tuple)):
        made, schedulers = made
    optimizers = made if isinstance(made, (list, tuple)) else [made]
    if len(optimizers) != 1 or not isinstance(optimizers[0], torch.optim.Optimizer):
        raise UserError(f"configure_optimizers() of {type(module).__name__} must return one optimizer, with or without "
                        "learning rate schedulers; a job trains one model with one optimizer")
    return optimizers[0], [_scheduler(one) for one in (schedulers if isinstance(schedulers, (list, tuple)) else [schedulers])]


def _scheduler(configured: Any) -> tuple[Any, int]:
    if not isinstance(configured, dict):
        configured = {"scheduler": configured}
    scheduler = configured["scheduler"]
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise UserError("configure_optimizers() returned a ReduceLROnPlateau, but learning rates must follow from the step; "
                        "use another scheduler")
    frequency = configured.get("frequency") or 1
    if configured.get("interval", "epoch") == "step":
        return scheduler, frequency
    if frequency != 1:
        raise UserError(f"configure_optimizers() returned a scheduler with frequency={frequency} epochs; use interval='step'")
    return scheduler, 0


def _steps_of_epoch(train: Any, global_batch: int) -> int:
    try:
        return math.ceil(len(getattr(train, "dataset", train)) / global_batch)
    except TypeError as error:
        raise UserError("a scheduler with the interval 'epoch' needs a data set with a length; use interval='step'") from error


def _stepping(job: Job, scheduler: Any, interval: int) -> Callable[[], None]:
    def step() -> None:  # runs after the update, before the job counts the step
        if (job.steps + 1) % interval == 0:
            scheduler.step()

    return step


def _validating(module: torch.nn.Module, loader: DataLoader, monitor: str, device: torch.device,
                mixed: bool) -> Callable[[torch.nn.Module, int, int], tuple[float, float]]:
    def validate(_: torch.nn.Module, rank: int, size: int) -> tuple[float, float]:
        logged: dict[str, Any] = {}
        _log_into(module, logged.update)
        total, count = 0.0, 0
        indices = range(rank, len(loader.dataset), size)
        own = Subset(loader.dataset, indices)
        batch_size = loader.batch_size or 1
        for number, data in enumerate(DataLoader(own, batch_size, collate_fn=loader.collate_fn)):
            batch = Batch(data, list(indices[number * batch_size:(number + 1) * batch_size])).to(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=mixed):
                module.validation_step(batch.data, number)
            if monitor not in logged:
                raise UserError(f"validation_step() of {type(module).__name__} did not log {monitor!r}; log it, or name what "
                                "it logs in monitor of fit()")
            total += float(logged[monitor]) * len(batch)
            count += len(batch)
        return total, count

    return validate


def _log_into(module: torch.nn.Module, take: Callable[[dict[str, Any]], Any]) -> None:
    """Passes the values that the module logs to `take`. Ignores the options of log() for steps, epochs and loggers,
    which the job handles."""

    def log_dict(values: Any, *_: Any, **__: Any) -> None:
        take(dict(values))

    module.log_dict = log_dict
    module.log = lambda name, value, *_, **__: log_dict({name: value})


def _loss_of(made: Any) -> torch.Tensor:
    loss = made.get("loss") if isinstance(made, dict) else made
    if not isinstance(loss, torch.Tensor):
        raise UserError(f"training_step() returned {type(made).__name__}; it must return the loss, or a dict with 'loss'")
    return loss
