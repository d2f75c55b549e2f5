"""Hugging Face's Trainer for elastic training: its loop, arguments and callbacks, with the steps of a job.

    from ringmaster.integrations.transformers import Trainer

A step of the Trainer is a step of the job. This rank computes its share in micro-batches of
per_device_train_batch_size; the gradients are summed over all ranks, and a discarded step is computed again in the next
world. Because the job loads the samples and makes the step, the Trainer's data loader only counts steps, and the step
of its optimizer does nothing.
"""

from __future__ import annotations

import contextlib
import copy
import math
import os
from collections.abc import Iterator
from typing import Any

import torch
import transformers
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, IntervalStrategy

import ringmaster

from ..batches import Batch
from ..errors import UserError
from ..job import Job
from ..world import Epoch
from .accelerate import OptimizerOfJob, follow_rank

_REFUSED = (
    # an argument, whether its value requests the feature, and what the user should do
    ("fsdp", lambda value: bool(value), "each rank holds the whole model; remove it"),
    ("deepspeed", lambda value: bool(value), "each rank holds the whole model; remove it"),
    ("auto_find_batch_size", lambda value: bool(value), "all ranks must use the same value; set per_device_train_batch_size"),
    ("torch_empty_cache_steps", lambda value: value is not None, "remove it"),
    ("include_num_input_tokens_seen", lambda value: value not in (False, "no"), "a rank does not see all tokens; remove it"),
    ("group_by_length", lambda value: bool(value), "the seed and the step determine the samples; remove it"),
    ("train_sampling_strategy", lambda value: value not in (None, "random", "sequential"),
     "the seed and the step determine the samples; use 'random' or 'sequential'"),
    ("eval_strategy", lambda value: value == IntervalStrategy.EPOCH, "steps may span the end of an epoch; use 'steps'"),
    ("save_strategy", lambda value: value == "epoch", "steps may span the end of an epoch; use 'steps'"),
    ("logging_strategy", lambda value: value == IntervalStrategy.EPOCH, "steps may span the end of an epoch; use 'steps'"),
)


class Trainer(transformers.Trainer):
    """transformers.Trainer, whose train() joins the job and returns when all ranks are done.

    global_batch: samples of a step over all ranks. None: per_device_train_batch_size times gradient_accumulation_steps
    times the maximum number of ranks of the job. `job` is set once training has started. Evaluation runs on every rank,
    over all of the evaluation data; rank 0 saves checkpoints.
    """

    job: Job | None = None

    def __init__(self, model: Any = None, args: Any = None, *positional: Any, global_batch: int | None = None, **named: Any):
        args = transformers.TrainingArguments() if args is None else copy.copy(args)
        for name, asked, advice in _REFUSED:
            if asked(getattr(args, name, None)):
                raise UserError(f"TrainingArguments have {name}={getattr(args, name)!r}, which a job with "
                                f"spec.elasticity.mode: InPlace does not support: {advice}")
        accumulated = args.per_device_train_batch_size * args.gradient_accumulation_steps
        self.global_batch = global_batch or accumulated * int(os.environ.get("RINGMASTER_MAX_RANKS") or 1)
        args.gradient_accumulation_steps = 1  # an item of the counter below is a whole step
        args.disable_tqdm = True  # the process of rank 0 may change
        args._n_gpu = min(args.n_gpu, 1)
        super().__init__(model, args, *positional, **named)
        self.callback_handler.callbacks.insert(0, _Follow(self))
        self._batches: Iterator[Batch] | None = None
        self._norm = torch.tensor(math.nan)  # norm of the last step's gradients
        self.best: dict[str, Any] = {}  # the best model so far, whose checkpoint is complete
        self.saving: str | None = None  # checkpoint of a better model that rank 0 may still be saving
        self._saving_since = Epoch()

    def train(self, resume_from_checkpoint: Any = None, *positional: Any, **named: Any) -> Any:
        if resume_from_checkpoint:
            raise UserError("train() was given resume_from_checkpoint; the job resumes from its own checkpoint automatically. "
                            "To start from saved weights, load the model with from_pretrained()")
        if self.job is not None:
            raise UserError("train() was called twice; a process is a rank of one job")
        self._sample_count = _length_of(self.train_dataset)
        if self.args.max_steps <= 0:
            self.args.max_steps = math.ceil(self.args.num_train_epochs * self._sample_count / self.global_batch)
        result = super().train(None, *positional, **named)
        self._batches.close()
        while not self.job.finish():
            pass
        self.settle_best()
        if self.args.load_best_model_at_end and self.state.best_model_checkpoint is not None:
            self._load_best_model()
        return result

    # --- methods of the Trainer that the job replaces

    def get_train_dataloader(self) -> Any:
        return _Counter(self.args.max_steps)

    def create_optimizer(self, *positional: Any, **named: Any) -> torch.optim.Optimizer:
        super().create_optimizer(*positional, **named)
        if not isinstance(self.optimizer, OptimizerOfJob):
            self.optimizer = OptimizerOfJob(self.optimizer)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        return super().create_scheduler(num_training_steps, optimizer or self.optimizer.optimizer)

    def join(self) -> None:
        """Joins the job. Called before the first step."""
        args = self.args
        self.job = ringmaster.join(self.model, self.optimizer.optimizer, global_batch=self.global_batch, seed=args.seed,
                                   micro_batch=args.per_device_train_batch_size, scaler=self.accelerator.scaler,
                                   state={"scheduler": self.lr_scheduler, "trainer": _StateOfTrainer(self)})
        self.job.before_update(self._clip)
        if not isinstance(self.lr_scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            self.job.after_step(self.lr_scheduler.step)
        dataset, collator = self.train_dataset, self.data_collator
        if hasattr(dataset, "remove_columns"):  # a data set of the library datasets
            dataset = self._remove_unused_columns(dataset, description="training")
        else:
            collator = self._get_collator_with_removed_columns(collator, description="training")
        self._batches = self.job.batches(dataset, steps=self.state.max_steps, collate_fn=collator,
                                         shuffle=getattr(args, "train_sampling_strategy", None) != "sequential",
                                         num_workers=args.dataloader_num_workers)
        self.follow()
        self.state.global_step = self._initial_global_step = self._globalstep_last_logged = self.job.steps

    def follow(self) -> None:
        """Makes rank 0 of the current world the Trainer's main process."""
        follow_rank(self.accelerator, self.job)
        self.state.is_world_process_zero = self.is_world_process_zero()
        self.state.is_local_process_zero = self.is_local_process_zero()
        self.state.epoch = self.state.global_step * self.global_batch / self._sample_count

    def is_local_process_zero(self) -> bool:
        return self.is_world_process_zero()  # only one rank logs

    def training_step(self, model: torch.nn.Module, *_: Any, **__: Any) -> torch.Tensor:
        """Repeats the step until it is applied, and returns the mean loss over the global batch."""
        model.train()
        if callable(getattr(self.optimizer, "train", None)):
            self.optimizer.train()
        for batch in self._batches:
            inputs = self._prepare_inputs(batch.data)
            items = self._get_num_items_in_batch([inputs], self.args.device)
            weight: float = len(batch)
            if items is not None:  # the loss is a mean over tokens
                weight = max(float(items), 1e-9)  # without tokens: almost no weight, but part of the step
                items = items.clamp(min=1)
            with self.compute_loss_context_manager():
                loss = self.compute_loss(model, inputs, num_items_in_batch=items)
            self.job.backward(loss, weight)
            if self.job.last_batch and self.job.step():
                break
        self.state.global_step = self.job.steps - 1  # the Trainer adds one
        return torch.tensor(self.job.loss, device=self.args.device)

    def _clip(self) -> None:
        parameters = [parameter for group in self.job.optimizer.param_groups for parameter in group["params"]]
        self._norm = torch.nn.utils.clip_grad_norm_(parameters, self.args.max_grad_norm or math.inf)

    def _clip_grad_norm(self, model: torch.nn.Module) -> torch.Tensor:
        return self._norm

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> float:
        return float(self._norm)

    def floating_point_ops(self, inputs: Any) -> int:
        return 0  # the share of a rank changes

    def _load_best_model(self) -> None:
        if self.job.finished:  # until then, all ranks have the state of the last step
            super()._load_best_model()

    def _save_checkpoint(self, *positional: Any, **named: Any) -> None:
        folder = os.path.join(self.args.output_dir, f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
        if self.is_world_process_zero():
            with contextlib.suppress(FileNotFoundError):  # an earlier run may have saved the same step
                os.remove(os.path.join(folder, TRAINER_STATE_NAME))
            super()._save_checkpoint(*positional, **named)
        elif getattr(self.state, "best_global_step", None) == self.state.global_step:  # rank 0 saves the best model so far
            self.saving, self._saving_since = folder, self.job.epoch

    def settle_best(self) -> None:
        """Adopts the best model that rank 0 has saved. Keeps the one before if rank 0 was lost while it saved. Called when a
        step was applied after the save: in the same world, rank 0 has then completed it."""
        if self.saving is not None:
            same_world = self._saving_since == self.job.epoch
            if same_world or os.path.exists(os.path.join(self.saving, TRAINER_STATE_NAME)):  # the file that is written last
                self.state.best_model_checkpoint = self.saving
            else:
                set_best(self.state, self.best)
            self.saving = None
        self.best = best_of(self.state)


_BEST = ("best_metric", "best_global_step", "best_model_checkpoint")


def best_of(state: transformers.TrainerState) -> dict[str, Any]:
    return {name: getattr(state, name, None) for name in _BEST}


def set_best(state: transformers.TrainerState, best: dict[str, Any]) -> None:
    for name, value in best.items():
        setattr(state, name, value)


class _Follow(transformers.TrainerCallback):
    """Joins the job when the Trainer starts, and updates the Trainer's state from the job after each step."""

    def __init__(self, trainer: Trainer):
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer.join()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer.follow()
        self._trainer.settle_best()
        control.should_training_stop |= self._trainer.job.finishing


class _StateOfTrainer:
    """What decides when training ends, which all ranks must therefore have: the best value so far, and the states of
    callbacks such as EarlyStoppingCallback."""

    def __init__(self, trainer: Trainer):
        self._trainer = trainer

    def _callbacks(self) -> list[ExportableState]:
        return [one for one in self._trainer.callback_handler.callbacks if isinstance(one, ExportableState)]

    def state_dict(self) -> dict[str, Any]:
        return {"best": best_of(self._trainer.state), "saved best": self._trainer.best, "saving": self._trainer.saving,
                "callbacks": [callback.state()["attributes"] for callback in self._callbacks()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_best(self._trainer.state, state["best"])
        self._trainer.best, self._trainer.saving = state["saved best"], state["saving"]
        for callback, attributes in zip(self._callbacks(), state["callbacks"]):
            for name, value in attributes.items():
                setattr(callback, name, value)


class _Counter:
    """The Trainer's data loader, which has one item per step, in one epoch."""

    def __init__(self, steps: int):
        self.steps = steps
        self.dataset = range(steps)

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[dict]:
        return iter({} for _ in range(self.steps))


def _length_of(dataset: Any) -> int:
    try:
        return len(dataset)
    except TypeError as error:
        raise UserError(f"train_dataset, a {type(dataset).__name__}, has no length, so the samples of each step cannot "
                        "be determined; use a data set with len() and dataset[i]") from error
