"""Training in a world that changes: what a script calls. `join()` is in __init__.py.

A step is begun, computed, reduced and applied, or it did not happen: then its share is computed again, in the next world.
A step is applied once all sums have come, and committed once a collective of the next one has completed, which shows that
every rank has applied it (docs/architecture/gradient-to-commit.md: the LibTorch trainer does the same).
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any, Callable, Iterator

import torch

from .audit_log import AuditLog
from .batches import Batch, BatchSource
from .buckets import Buckets
from .checkpoint import Keeper
from .errors import RingmasterError, Unavailable, UserError, WorldOver
from .position import Phase, Position
from .random_state import seed_for, torch_seeded
from .shares import share
from .state import LocalState, StateVersion, TrainingState
from .step_log import StepLog
from .sync import StateSync, compare_texts
from .transport import Communicator, device_of
from .world import Epoch, Membership, Progress, World

_logger = logging.getLogger("ringmaster")


class Job:
    """One rank. Made once per process by join(). Thread-safety: one thread.

    `state`: add what has `state_dict` and `load_state_dict`, such as a scheduler: `job.state["scheduler"] = scheduler`.
    A rank that joins takes it over, checkpoints keep it, and what the script changed in a step that did not happen is put
    back.
    """

    def __init__(self, membership: Membership, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *,
                 global_batch: int, seed: int, micro_batch: int | None, settings: str, timeout: float,
                 state: dict[str, Any]):
        self.model = model
        self.optimizer = optimizer
        self.state = state
        self.global_batch = global_batch
        self.micro_batch = micro_batch
        self.seed = seed
        self._membership = membership
        self._timeout = timeout
        self._settings = settings
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._device = device_of(self._parameters)
        self._training = TrainingState(model, optimizer, state)
        self._statistics = _statistics_of(model)
        self._buckets = Buckets(self._parameters)
        self._position = Position.open()
        self._audit = AuditLog.open()
        self._log = StepLog()
        self._keeper = Keeper.open(membership, settings)
        self._held = LocalState()
        self._world: World | None = None
        self._communicator: Communicator | None = None
        self._source: BatchSource | None = None
        self._data = ""  # of batches(): what all ranks must have alike, compared with each step's votes
        self._after_step: list[Callable[[], Any]] = []
        self._evaluation: tuple[Callable, int, str] | None = None
        self._total_steps = 0
        self._unreported: Progress | None = None  # of the applied step, until it is committed
        self._leave = False  # all ranks leave this world before the next step
        self._checkpoint_wanted = False
        self._trained = False  # a step of the state is of this job
        self._in_step = False
        self._finished = False
        self._accuracy = -1.0  # not measured yet
        self._join()

    # --- where it stands

    @property
    def steps(self) -> int:
        """How many steps are applied, over all worlds."""
        return self._held.version.step

    @property
    def rank(self) -> int:
        """In the present world; it may change wherever a call blocks."""
        return self._world.rank

    @property
    def world_size(self) -> int:
        return self._world.size

    @property
    def share(self) -> tuple[int, int]:
        """Samples [begin, end) of a step's global batch that this rank computes in the present world."""
        return share(self.global_batch, self.rank, self.world_size)

    # --- a step

    def batches(self, dataset, *, steps: int, shuffle: bool = True, collate_fn: Callable | None = None,
                num_workers: int = 0) -> Iterator[Batch]:
        """This rank's micro-batches of every step until `steps` are applied; then waits until all ranks may end.

        Going on to the first micro-batch of the next step makes the step (as step() does, if the script has not called
        it). A step that did not happen comes again. Leaving the loop early leaves the step undone.
        """
        self._source = BatchSource(dataset, global_batch=self.global_batch, seed=self.seed, micro_batch=self.micro_batch,
                                   shuffle=shuffle, collate_fn=collate_fn, num_workers=num_workers, device=self._device)
        self._data = self._source.fingerprint_text() + f"\nsteps={steps}"
        self._total_steps = steps
        try:
            while True:
                while self.steps < steps:
                    yield from self._step_of(self._source)
                if self.finish():
                    return
        finally:
            if self._in_step:
                _logger.warning("step %d did not happen: the loop was left in it", self.steps + 1)
                self._training.put_back()
                self._in_step = False

    def _step_of(self, source: BatchSource) -> Iterator[Batch]:
        begin, end = self.begin()
        number = self.steps + 1
        left = end - begin
        for batch in source.load(number, begin, end):
            left -= len(batch)
            self._batch_size = len(batch)
            self._last = left == 0
            self._position.enter(Phase.COMPUTE)
            with torch_seeded(seed_for(self.seed, number, end - left - len(batch)), self._device):
                yield batch
            if not self._in_step:  # the script called step()
                return
            if self._communicator.over:
                break
            self._position.enter(Phase.DATA)
        self.step()

    def begin(self) -> tuple[int, int]:
        """Begins the next step, for a loop of one's own: this rank's share of it. Leaves the world first if all ranks
        are to leave it."""
        if self._leave:
            self._leave_at_boundary()
        self._evaluate()
        self._training.remember()
        self._buckets.zero()
        self._weight = 0.0
        self._batch_size = 0
        self._last = False
        self._loss = torch.zeros((), dtype=torch.float64, device=self._device)
        self._begun = time.monotonic()
        self._in_step = True
        begin, end = self.share
        self._audit.begun(self._world, self.steps + 1, begin, end)
        self._position.enter(Phase.DATA)
        return begin, end

    def backward(self, loss: torch.Tensor, weight: float | None = None) -> None:
        """Adds the gradients of a micro-batch. `loss`: the mean over its samples, or over whatever `weight` counts, such
        as tokens. `weight`: samples of the micro-batch, unless it says otherwise. The step's gradients are the mean over
        the whole global batch: the sum of loss times weight over all ranks, divided by the sum of weights.
        """
        if not self._in_step:
            raise UserError("backward() was called outside of a step: call it in a loop over job.batches(), or after "
                            "job.begin()")
        if weight is None:
            weight = self._batch_size or 1
        if loss.dim() > 0 and loss.numel() != 1:
            raise UserError(f"backward() takes one number, the mean loss of the micro-batch; it was given {tuple(loss.shape)}")
        self._weight += weight
        self._loss += loss.detach().double().reshape(()) * weight
        if self._communicator.over:
            return  # the step will not happen
        if self._last:
            self._buckets.arm(self._communicator)
        (loss * (weight / self.global_batch)).backward()

    def step(self) -> bool:
        """Reduces and applies the step. False: it did not happen; the state is as before, or another rank's newer one."""
        if not self._in_step:
            raise UserError("step() was called outside of a step: call begin() first")
        if self._weight == 0 and not self._communicator.over:
            raise UserError(f"step {self.steps + 1} was made without job.backward()")
        try:
            loss = self._reduce()
        except WorldOver as over:
            self._training.put_back()
            self._in_step = False
            self._change(over)
            return False
        self._committed()
        self._position.enter(Phase.UPDATE)
        self.optimizer.step()
        for function in self._after_step:
            function()
        self._applied(loss)
        return True

    def _reduce(self) -> float:
        """The mean loss of the step; the parameters' gradients are means then."""
        self._position.enter(Phase.REDUCE)
        waiting = time.monotonic()
        communicator, size = self._communicator, self._world.size
        epoch = self._world.epoch
        unused = self._buckets.unused()
        votes = torch.zeros(5 + 2 * size, dtype=torch.float64, device=self._device)
        votes[0] = self._loss
        votes[1] = self._weight
        votes[2] = self._membership.switch_wanted(epoch)
        votes[3] = self.rank == 0 and self._membership.checkpoint_wanted(epoch)
        votes[4] = len(unused)
        votes[5 + self.rank] = ~torch.isfinite(self._loss)
        votes[5 + size + self.rank] = seed_for(self._data) % 2**52  # exact in a double
        self._buckets.flush(communicator)
        voted = communicator.all_reduce(votes)
        statistics = self._statistics_sum(communicator)
        self._buckets.wait()
        voted.wait()
        if statistics is not None:
            statistics[1].wait()
        total, weights, leave, checkpoint, missing, *of_ranks = votes.tolist()
        compare_texts(communicator, self._data, of_ranks[size:])
        if missing:
            self._drop_unused(unused)
        self._waited = time.monotonic() - waiting
        culprits = [rank for rank, bad in enumerate(of_ranks[:size]) if bad]
        if culprits:
            raise UserError(f"step {self.steps + 1}: the loss of rank {culprits[0]} is not a finite number: training "
                            "diverged; try a smaller learning rate, or look at the data")
        if not weights > 0:
            raise UserError(f"step {self.steps + 1}: the sum of all weights is {weights:g}; weights are positive numbers")
        if not self._buckets.scale(self.global_batch / weights):
            raise UserError(f"step {self.steps + 1}: a gradient is not a finite number: training diverged; try a smaller "
                            "learning rate, or look at the data")
        if statistics is not None:
            _put_means(self._statistics, statistics[0], weights)
        self._leave = leave > 0
        self._checkpoint_wanted = self._checkpoint_wanted or checkpoint > 0
        return total / weights

    def _statistics_sum(self, communicator: Communicator):
        """The running averages of normalisation, summed by weight: each rank has seen samples of its own."""
        if not self._statistics or not self.model.training:
            return None
        flat = torch.cat([values.detach().reshape(-1).float() for values in self._statistics]) * self._weight
        return flat, communicator.all_reduce(flat)

    def _drop_unused(self, unused: list[int]) -> None:
        counts = torch.zeros(self._buckets.count, device=self._device)
        counts[unused] = 1
        self._communicator.all_reduce(counts).wait()
        self._buckets.drop([number for number, count in enumerate(counts.tolist()) if count == self._world.size])

    def _applied(self, loss: float) -> None:
        begin, end = self.share
        self._held = self._held.next(self._world.epoch)
        self._trained = True
        self._in_step = False
        took = time.monotonic() - self._begun
        self._position.applied(self.steps, took, took - self._waited)
        if self._audit.on:
            self._audit.applied(self._world, self.steps, begin, end, self._training.checksum())
        progress = Progress(self.steps, self._total_steps, self.global_batch / took, loss, self._accuracy)
        self._unreported = progress
        if self.rank == 0:
            self._log.applied(progress, self._world)
        self._position.enter(Phase.EVALUATE)  # the script's own time may be long

    def _committed(self) -> None:
        """A collective of the step under way has completed: every rank has applied the last one."""
        if self._unreported is None:
            return
        if self.rank == 0:
            self._membership.report(self._world, self._unreported)
            wanted, self._checkpoint_wanted = self._checkpoint_wanted, False
            if self._keeper is not None and (wanted or self._keeper.due(self.steps)):
                self._position.enter(Phase.EVALUATE)  # copying a large state takes long
                self._keeper.take(self._held, self._training.as_dict)
        self._unreported = None

    # --- what a script may want beside steps

    def log(self, **metrics: float) -> None:
        """Metrics of the step under way; rank 0 writes them beside the loss, and gives them to callbacks."""
        if self.rank == 0:
            self._log.add(metrics)

    def on_log(self, callback: Callable[[int, dict[str, float]], None]) -> None:
        """`callback(step, metrics)` is called on rank 0 after each step that is logged (step_log.py has some)."""
        self._log.add_callback(callback)

    def after_step(self, function: Callable[[], Any]) -> None:
        """Has `function` called after each step that was applied, such as a scheduler's step. What it changes belongs into
        `state`."""
        self._after_step.append(function)

    def evaluate(self, function: Callable[[torch.nn.Module, int, int], tuple[float, float]], *, every: int,
                 name: str = "accuracy") -> None:
        """Has `function` called on every rank after each `every` steps, before the next step begins, and after the last.

        `function(model, rank, world_size)` returns a sum and a count over this rank's part of the data; the mean over all
        ranks is logged as `name`, and as the job's accuracy if that is its name. It runs without gradients, with the
        model in evaluation mode, and again in the next world if this one ends. A world may change at any step, so when it
        runs must follow from the number of the step alone.
        """
        if every < 1:
            raise UserError(f"evaluate() was given every={every}; it is a number of steps, at least 1")
        self._evaluation = (function, every, name)

    def _evaluate(self, last: bool = False) -> None:
        if self._evaluation is None or self.steps == 0:
            return
        function, every, name = self._evaluation
        while last or self.steps % every == 0:
            self._position.enter(Phase.EVALUATE)
            training = self.model.training
            self.model.eval()
            try:
                with torch.no_grad():
                    total, count = function(self.model, self.rank, self.world_size)
            finally:
                self.model.train(training)
            sums = torch.tensor([float(total), float(count)], dtype=torch.float64, device=self._device)
            try:
                self._communicator.all_reduce(sums).wait()
            except WorldOver as over:
                if last:
                    raise
                self._change(over)
                continue
            mean = (sums[0] / sums[1]).item()
            self._accuracy = mean if name == "accuracy" else self._accuracy
            self.log(**{name: mean})
            return

    def finish(self) -> bool:
        """After the last step, for a loop of one's own; batches() calls it. True: all ranks are done, and the script may
        end. False: the world changed; look at `steps` again, since a step may have to be repeated."""
        if self._finished:
            return True
        try:
            if self._leave:
                self._leave_at_boundary()
            self._evaluate(last=True)
            self._communicator.all_reduce(torch.zeros(1, device=self._device)).wait()
            progress = self._unreported or Progress(self.steps, self._total_steps)
            if self.rank == 0 and self._keeper is not None and self._trained:
                self._keeper.take(self._held, self._training.as_dict)
            self._committed()
            self._position.enter(Phase.DONE)
            if self._keeper is not None:
                self._keeper.wait(self._timeout)
            if not self._trained:
                self._membership.nothing_trained()
            if self._membership.finish(self._world, progress):
                self._finished = True
                self._close()
                return True
            raise WorldOver("another world comes", told=True)
        except WorldOver as over:
            self._change(over)
            return False

    # --- worlds

    def _join(self) -> None:
        if self._keeper is not None:
            try:
                self._restore()  # now, while no rank waits
            except Unavailable as error:
                _logger.warning("loaded no checkpoint: %s", error)
        self._enter_next(Epoch())

    def _restore(self) -> LocalState:
        restored = self._keeper.restore(self._held)
        if restored is not None:
            self._training.load(restored.state)
            self._held = restored.held
        return self._held

    def _enter_next(self, after: Epoch) -> None:
        while True:
            self._position.enter(Phase.WAIT)
            self._world = self._membership.await_world(after)
            after = self._world.epoch
            try:
                self._enter()
                return
            except WorldOver as over:
                self._leave_world(over)

    def _enter(self) -> None:
        world = self._world
        start = time.monotonic()
        self._position.enter_world(world.epoch)
        self._communicator = Communicator(world, self._device, self._timeout)
        self._membership.watch(world.epoch, self._communicator.abort)
        self._communicator.connect(self._membership.store(world))
        look_again = None if self._keeper is None else self._look_again
        adopted = StateSync(self._communicator, self._training, self._held, self._settings, self._position, look_again,
                            self._pause).run()
        self._membership.unprotected("restore", "")
        began = self._held.origin != "training"
        self._held = adopted.held
        self._leave = False
        self._unreported = None
        self._position.set_step(self.steps)
        if began and self.rank == 0 and self._keeper is not None:
            text, kept = self._keeper.beginning(self._held)
            if text or kept:
                self._membership.began(world, self.steps, text, kept)
        origin = self._held.origin
        self._audit.entered(world, self.global_batch, self._held.epoch_of_run(), self.steps,
                            "checkpoint" if origin == "other" else origin, adopted.checksum)
        _logger.info("entered world %d.%d as rank %d of %d after step %d in %.0f ms", world.epoch.term,
                     world.epoch.number, world.rank, world.size, self.steps, 1e3 * (time.monotonic() - start))

    def _look_again(self, held: LocalState) -> LocalState:
        try:
            return self._restore()
        except Unavailable as error:
            self._membership.unprotected("restore", str(error))
            raise

    def _pause(self, attempt: int) -> None:
        limit = time.monotonic() + min(0.1 * 2**attempt, 5.0, self._timeout / 4)
        while time.monotonic() < limit and self._membership.why_over(self._world.epoch) is None:
            time.sleep(0.02)

    def _change(self, over: WorldOver) -> None:
        self._leave_world(over)
        self._enter_next(self._world.epoch)

    def _leave_world(self, over: WorldOver) -> None:
        self._close_world(str(over))
        _logger.warning("left world %d.%d after step %d: %s", *self._world.epoch, self.steps, over)
        if not over.told:
            self._membership.broken(self._world, over.peer, str(over))

    def _leave_at_boundary(self) -> None:
        self._leave = False
        self._close_world("all ranks leave it")
        self._membership.at_boundary(self._world, self.steps)
        self._enter_next(self._world.epoch)

    def _close_world(self, reason: str) -> None:
        self._membership.unwatch()
        if self._communicator is not None:
            self._communicator.abort(reason)
            self._communicator.close()
        if self._keeper is not None:
            self._keeper.world_ended()

    def _close(self) -> None:
        self._membership.unwatch()
        self._communicator.close()


def _statistics_of(model: torch.nn.Module) -> list[torch.Tensor]:
    """Running averages that a forward pass changes."""
    norms = (module for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._NormBase))
    return [values for norm in norms if norm.track_running_stats
            for values in (norm.running_mean, norm.running_var) if values is not None]


def _put_means(statistics: list[torch.Tensor], sums: torch.Tensor, weights: float) -> None:
    at = 0
    for values in statistics:
        values.copy_((sums[at:at + values.numel()] / weights).view(values.shape))
        at += values.numel()
