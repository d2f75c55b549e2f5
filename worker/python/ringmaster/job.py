"""The API that a script calls to train in a world that changes. `join()` is in __init__.py.

A step is begun, computed, reduced and applied. If the world breaks before the step is applied, the step is discarded
and computed again in the next world. A step is applied once all sums have arrived. It is committed once a collective of
the next step has completed, because every rank has then applied it. docs/architecture/gradient-to-commit.md describes
this for the LibTorch trainer, which does the same.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import replace
from typing import Any, Callable, Iterator

import torch

from .audit_log import AuditLog
from .batches import Batch, BatchSource
from .checkpoint import Keeper
from .errors import UserError, WorldOver
from .evaluation import Evaluation
from .position import Phase, Position
from .random_state import seed_for, torch_seeded
from .sample_order import share
from .state import Extras, TrainingState, check_optimizer
from .step_log import StepLog
from .step_reducer import Reduced, StepReducer, Votes
from .transport import device_of
from .update import Update
from .world import Epoch, Membership, Progress
from .world_entry import WorldEntry

_logger = logging.getLogger("ringmaster")


class Job:
    """The interface of a rank to its job. join() creates it once per process. Thread-safety: one thread.

    Add objects with `state_dict` and `load_state_dict` to `state`: `job.state["scheduler"] = scheduler`. A new rank
    receives these objects' state, checkpoints contain it, and changes to it in a discarded step are undone. `finished`
    is True once all ranks may exit.
    """

    def __init__(self, membership: Membership, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *,
                 global_batch: int, seed: int, micro_batch: int | None, settings: str, timeout: float,
                 state: dict[str, Any], scaler: torch.amp.GradScaler | None = None):
        self.model, self.optimizer = model, optimizer
        self.global_batch, self.micro_batch, self.seed = global_batch, micro_batch, seed
        self.state = Extras(state if scaler is None else {**state, "scaler": scaler})
        self._scaler = scaler
        self._membership = membership
        named = list(model.named_parameters())
        self._device = device_of([parameter for _, parameter in named if parameter.requires_grad])
        check_optimizer(optimizer, named)
        self._training = TrainingState(model, optimizer, self.state)
        self._reducer = StepReducer(self._training, named, self._device, global_batch, scaler is not None)
        self._update = Update(optimizer, scaler)
        self._position = Position.open()
        self._audit = AuditLog.open()
        self._log = StepLog()
        keeper = Keeper.open(membership, settings)
        self._worlds = WorldEntry(membership, self._training, self._device, position=self._position, audit=self._audit,
                                  keeper=keeper, settings=settings, timeout=timeout, global_batch=global_batch)
        self._source: BatchSource | None = None
        self._data = ""  # fingerprint of the batches(), which each step compares
        self._evaluation: Evaluation | None = None
        self._total_steps = 0  # 0: unknown
        self._unreported: Progress | None = None  # progress of the applied step, until it is committed
        self._leave = False  # all ranks leave this world before the next step
        self._suspending = False  # the job is to be suspended after the applied step
        self.finished = self._in_step = self._looping = False  # _looping: a loop over batches() is running
        self._accuracy = -1.0  # not measured yet
        self._worlds.join()

    # --- current world and step

    @property
    def steps(self) -> int:
        """Returns the number of applied steps over all worlds."""
        return self._worlds.held.version.step

    @property
    def rank(self) -> int:
        """Returns this process's rank in the current world. The rank may change in any call that blocks."""
        return self._worlds.world.rank

    @property
    def world_size(self) -> int:
        return self._worlds.world.size

    @property
    def epoch(self) -> Epoch:
        return self._worlds.world.epoch

    @property
    def share(self) -> tuple[int, int]:
        """Returns the samples [begin, end) of a step's global batch that this rank computes in the current world."""
        return share(self.global_batch, self.rank, self.world_size)

    @property
    def loss(self) -> float:
        """Returns the mean loss over the global batch of the last applied step; NaN before the first."""
        return self._worlds.held.loss

    @property
    def finishing(self) -> bool:
        """Returns whether a rank has called finish() with the current state. If so, a custom loop must end, as
        batches() does."""
        return self._worlds.held.finishing

    @property
    def last_batch(self) -> bool:
        """Returns, in a loop over batches(), whether the current micro-batch is this rank's last in the step."""
        return self._looping and self._in_step and self._left == 0

    # --- a step

    def batches(self, dataset, *, steps: int, shuffle: bool | None = None, collate_fn: Callable | None = None,
                num_workers: int | None = None, finish: bool = True) -> Iterator[Batch]:
        """Yields this rank's micro-batches of every step up to `steps`, then waits until all ranks may exit.

        `dataset` is a map-style data set, which is shuffled in each epoch by default, or a DataLoader, whose settings are the
        defaults of the others.

        When the loop advances to the first micro-batch of the next step, the current step is completed as in step(),
        unless the script has called step(). A discarded step is repeated. If the script leaves the loop early, the step
        is discarded. Pass `finish`=False if another loop with a higher number of steps follows.
        """
        if self.finished:
            raise UserError(f"batches() was called after training ended with step {self.steps}; pass finish=False to all loops "
                            "except the last")
        if self._looping:
            raise UserError("batches() was called within another loop over batches()")
        self._source = BatchSource(dataset, global_batch=self.global_batch, seed=self.seed, micro_batch=self.micro_batch,
                                   shuffle=shuffle, collate_fn=collate_fn, num_workers=num_workers, device=self._device)
        self._data = self._source.fingerprint_text() + f"\nsteps={steps}"
        self._total_steps = steps
        self._looping = True
        try:
            while True:
                while self.steps < steps and not self.finishing:
                    yield from self._step_of(self._source)
                if not finish or self.finish():
                    return
        finally:
            self._looping = False
            self._source.close()
            if self._in_step:
                _logger.warning("step %d was discarded because the script left the loop during it", self.steps + 1)
                self._training.put_back()
                self._in_step = False

    def _step_of(self, source: BatchSource) -> Iterator[Batch]:
        if not self._ready():
            return
        begin, end = self._begin()
        number = self.steps + 1
        self._left = end - begin
        for batch in source.load(number, begin, end, self.micro_batch or self._worlds.world.full_share(self.global_batch)):
            first = end - self._left
            self._left -= len(batch)
            self._batch_size = len(batch)
            self._batch_computed = False
            self._position.enter(Phase.COMPUTE)
            with torch_seeded(seed_for(self.seed, number, first), self._device):
                yield batch
            if not self._in_step:  # the script called step()
                return
            if self._worlds.communicator.over:
                self._left = 0  # the step is discarded
                break
            self._position.enter(Phase.DATA)
        self.step()

    def begin(self) -> tuple[int, int]:
        """Begins the next step of a custom loop, after joining a new world if one is due. Returns this rank's share."""
        if not self._ready():
            raise UserError(f"begin() was called after another rank had ended training with step {self.steps}; a custom loop "
                            "must end when job.finishing is true")
        return self._begin()

    def _ready(self) -> bool:
        """Does the work that is due between two steps, and returns whether another step follows."""
        while not self.finishing:
            try:
                if self._leave:
                    self._leave_at_boundary()
                elif self._suspending:
                    self._await_suspension()
                else:
                    self._evaluate()
                    return True
            except WorldOver as over:
                self._change(over)
        return False

    def _begin(self) -> tuple[int, int]:
        self._training.remember()
        self._reducer.begin(self._worlds.world.size)
        self._left = 0  # samples that batches() has not yet yielded
        self._batch_size = 0  # 0: a custom loop
        self._begun = time.monotonic()
        self._in_step = True
        begin, end = self.share
        self._audit.begun(self._worlds.world, self.steps + 1, begin, end)
        self._position.enter(Phase.DATA)
        return begin, end

    def backward(self, loss: torch.Tensor, weight: float | None = None) -> None:
        """Adds the gradients of a micro-batch. `loss` is the mean over the samples, or over the units that `weight`
        counts, such as tokens. In a loop over batches(), `weight` defaults to the number of samples. The step's
        gradients are those of the mean loss over the whole global batch: the sum of loss times weight over all ranks,
        divided by the sum of weights.
        """
        if not self._in_step:
            raise UserError("backward() was called outside of a step: call it in a loop over job.batches(), or after "
                            "job.begin()")
        if self._batch_size and self._batch_computed:
            raise UserError("backward() was called twice for one micro-batch; add the losses and call it once")
        if weight is None and not self._batch_size:
            raise UserError("backward() was called without a weight in a custom loop; pass the number of samples of the loss")
        weight = float(self._batch_size if weight is None else weight)
        if not 0 <= weight < math.inf:
            raise UserError(f"backward() was given the weight {weight:g}; weights must be 0 or positive")
        if loss.numel() != 1:
            raise UserError(f"backward() takes one number, the mean loss of the micro-batch; it was given {tuple(loss.shape)}")
        if not loss.requires_grad:
            raise UserError("backward() was given a loss that does not require a gradient; compute it from the model's output, "
                            "without no_grad(), detach() or item()")
        self._reducer.begin_pass()
        self._batch_computed = True
        if weight == 0 or self._worlds.communicator.over:
            return  # the micro-batch contributes nothing, or the step is discarded
        self._reducer.add(loss, weight)
        if self._batch_size and self._left == 0:
            self._reducer.buckets.arm(self._worlds.communicator)
        scaled = loss if self._scaler is None else self._scaler.scale(loss)
        scaled.backward(torch.full_like(loss, weight / self.global_batch))
        self._reducer.buckets.seal()

    def step(self) -> bool:
        """Reduces and applies the step. Returns False if the step was discarded or has more micro-batches."""
        if not self._in_step:
            raise UserError("step() was called outside of a step; call begin() first")
        if self._left > 0 and self.micro_batch is None:  # the share has grown without the script's knowledge
            return False
        if self._left > 0:
            raise UserError(f"step() was called while {self._left} samples of the step remained: with micro_batch a step has "
                            "several micro-batches; remove step() from the loop over batches(), which calls it")
        if not self._worlds.communicator.over:
            if self._reducer.passes == 0:
                raise UserError(f"step {self.steps + 1} was made without job.backward()")
            self._reducer.buckets.check()
        try:
            reduced = self._reducer.reduce(self._worlds.communicator, self._votes(), self.steps + 1)
        except WorldOver as over:
            self._training.put_back()
            self._in_step = False
            self._change(over)
            return False
        self._leave, self._suspending = reduced.leave, reduced.checkpoint
        self._committed()
        self._training.certain()
        self._position.enter(Phase.UPDATE)
        self._worlds.held = replace(self._worlds.held, loss=reduced.loss)  # functions that the update calls may use it
        with torch_seeded(seed_for(self.seed, self.steps + 1, "update"), self._device):  # the same on every rank
            self._update.run()
        self._applied(reduced)
        return True

    def _votes(self) -> Votes:
        self._position.enter(Phase.REDUCE)
        epoch = self._worlds.world.epoch
        return Votes(self._membership.switch_wanted(epoch),
                     self.rank == 0 and self._membership.checkpoint_wanted(epoch), self._data)

    def _applied(self, reduced: Reduced) -> None:
        (begin, end), world = self.share, self._worlds.world
        self._worlds.held = self._worlds.held.next(world.epoch)
        self._in_step = False
        took = time.monotonic() - self._begun
        self._position.applied(self.steps, took, took - reduced.waited)
        if self._audit.on:
            self._audit.applied(world, self.steps, begin, end, self._training.checksum())
        progress = Progress(self.steps, self._total_steps, self.global_batch / took, reduced.loss, self._accuracy)
        self._unreported = progress
        self._position.enter(Phase.EVALUATE)  # on_log's callbacks, and the script between steps, may take long
        if self.rank == 0:
            self._log.applied(progress, world)

    def _committed(self) -> None:
        """Reports the committed step and saves a due checkpoint. Called when the next step's collective is complete."""
        if self._unreported is None:
            return
        if self.rank == 0:
            self._membership.report(self._worlds.world, self._unreported)
            self._worlds.keep_if_due()
        self._unreported = None

    # --- metrics, callbacks and evaluation

    def log(self, **metrics: float) -> None:
        """Adds metrics to the current step; rank 0 writes them with the loss and passes them to callbacks."""
        if self.rank == 0:
            self._log.add(metrics)

    def on_log(self, callback: Callable[[int, dict[str, float]], None]) -> None:
        """Registers `callback(step, metrics)`, which rank 0 calls after each logged step (examples: step_log.py)."""
        self._log.add_callback(callback)

    def before_update(self, function: Callable[[], Any]) -> None:
        """Registers `function`, which is called before each update, when all gradients are means over the whole batch.
        To clip gradients: `job.before_update(lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))`."""
        self._update.before.append(function)

    def after_step(self, function: Callable[[], Any]) -> None:
        """Registers `function`, which is called after each update, when `loss` is that of the step and `steps` does not
        count it yet. Add the objects that it changes to `state`."""
        self._update.after.append(function)

    def evaluate(self, function: Callable[[torch.nn.Module, int, int], tuple[float, float]], *, every: int,
                 name: str = "accuracy") -> None:
        """Registers `function`, which every rank calls after every `every` steps and after the last step.

        `function(model, rank, world_size)` returns the sum and the count of a value over this rank's part of the data.
        The mean over all ranks is logged as `name`, and as the job's accuracy if `name` is "accuracy". `function` runs
        without gradients and with the model in evaluation mode. If the world ends, `function` runs again in the next
        world. A world may change at any step, so only the number of the step may determine when `function` runs.
        """
        if every < 1:
            raise UserError(f"evaluate() was given every={every}; it must be a number of steps, at least 1")
        self._evaluation = Evaluation(function, every, name)

    def _evaluate(self, last: bool = False) -> None:
        if self._evaluation is not None:
            self._position.enter(Phase.EVALUATE)
            metrics = self._evaluation.run_if_due(self.model, self._worlds.communicator, self.steps, last)
            self._accuracy = metrics.get("accuracy", self._accuracy)
            self.log(**metrics)

    def finish(self) -> bool:
        """Waits for all ranks after the last step. A custom loop must call finish(); batches() calls it itself. Returns
        True if all ranks are done and the script may exit. Returns False if the world changed; then check `steps`
        again, because a step may have to be repeated. Raises UserError on all ranks if another rank begins a step."""
        if self.finished:
            return True
        self._worlds.held = replace(self._worlds.held, finishing=True)
        try:
            if self._leave:
                self._leave_at_boundary()
            if not self._worlds.ending:
                if not self._suspending:
                    self._evaluate()  # in the same order as a rank that begins a step
                self._agree(finish=True)
            self._evaluate(last=True)
            progress = self._unreported or Progress(self.steps, self._total_steps)
            self._committed()
            self._position.enter(Phase.DONE)
            self._worlds.keep_last()
            if not self._worlds.held.trained_here():
                self._membership.nothing_trained()
            if self._membership.finish(self._worlds.world, progress):
                self.finished = True
                self._worlds.end()
                self._reducer.close()
                self._update.close()
                return True
            raise WorldOver("another world follows", told=True)
        except WorldOver as over:
            self._change(over)
            return False

    def _agree(self, *, finish: bool) -> None:
        self._position.enter(Phase.REDUCE)
        self._reducer.agree(self._worlds.communicator, self.steps + 1, finish=finish)

    def _await_suspension(self) -> None:
        self._suspending, progress = False, self._unreported
        self._agree(finish=False)
        self._committed()
        self._worlds.await_suspension(progress)
        self._leave = self._membership.switch_wanted(self._worlds.world.epoch)

    def _change(self, over: WorldOver) -> None:
        self._worlds.change(over)
        self._entered()

    def _leave_at_boundary(self) -> None:
        self._worlds.leave_at_boundary()
        self._entered()

    def _entered(self) -> None:
        """Resets the requests and the uncommitted step of the previous world. Called in a new world."""
        self._leave = self._suspending = False
        self._unreported = None
        self._worlds.keep_if_due()  # the last step was applied in the previous world
