"""Training in a world that changes: what a script calls. `join()` is in __init__.py.

A step is begun, computed, reduced and applied, or it did not happen: then its share is computed again, in the next world.
A step is applied once all sums have come, and committed once a collective of the next one has completed, which shows that
every rank has applied it (docs/architecture/gradient-to-commit.md: the LibTorch trainer does the same).
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from typing import Any, Callable, Iterator

import torch

from .audit_log import AuditLog
from .batches import Batch, BatchSource
from .buckets import Buckets
from .checkpoint import Keeper
from .errors import Unavailable, UserError, WorldOver
from .position import Phase, Position
from .random_state import seed_for, torch_seeded
from .shares import share
from .state import Extras, LocalState, TrainingState
from .step_log import StepLog
from .sync import StateSync, compare_texts
from .transport import Communicator, device_of
from .world import Epoch, Membership, Progress, World

_logger = logging.getLogger("ringmaster")

_VOTES = 6  # of a step, before those of each rank


class Job:
    """One rank. Made once per process by join(). Thread-safety: one thread.

    `state`: add what has `state_dict` and `load_state_dict`, such as a scheduler: `job.state["scheduler"] = scheduler`.
    A rank that joins takes it over, checkpoints keep it, and what the script changed in a step that did not happen is put
    back.
    """

    def __init__(self, membership: Membership, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *,
                 global_batch: int, seed: int, micro_batch: int | None, settings: str, timeout: float,
                 state: dict[str, Any], scaler: torch.amp.GradScaler | None = None):
        self.model = model
        self.optimizer = optimizer
        self.state = Extras(state)
        self._scaler = scaler
        if scaler is not None:
            self.state["scaler"] = scaler
        self.global_batch = global_batch
        self.micro_batch = micro_batch
        self.seed = seed
        self._membership = membership
        self._timeout = timeout
        self._settings = settings
        self._named = list(model.named_parameters())
        self._device = device_of([parameter for _, parameter in self._named if parameter.requires_grad])
        self._on_cpu = self._device.type == "cpu"
        _check_optimizer(optimizer, self._named)
        self._training = TrainingState(model, optimizer, self.state)
        self._make_buckets()
        optimizer.register_step_pre_hook(self._check_update)
        self._position = Position.open()
        self._audit = AuditLog.open()
        self._log = StepLog()
        self._keeper = Keeper.open(membership, settings)
        self._held = LocalState()
        self._world: World | None = None
        self._communicator: Communicator | None = None
        self._source: BatchSource | None = None
        self._data_word = 0.0  # of `_data`, exact in a double
        self._data = ""  # of batches(): what all ranks must have alike, compared with each step's votes
        self._before_update: list[Callable[[], Any]] = []
        self._after_step: list[Callable[[], Any]] = []
        self._evaluation: tuple[Callable, int, str] | None = None
        self._total_steps = 0
        self._unreported: Progress | None = None  # of the applied step, until it is committed
        self._leave = False  # all ranks leave this world before the next step
        self._checkpoint_wanted = False
        self._trained = False  # a step of the state is of this job
        self._in_step = False
        self._updating = False
        self._looping = False  # over batches()
        self._finished = False
        self._accuracy = -1.0  # not measured yet
        self._mean_loss = float("nan")
        self._last = False
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

    @property
    def loss(self) -> float:
        """Of the last step that this rank has applied: the mean over the global batch. Not a number before the first."""
        return self._mean_loss

    @property
    def last_batch(self) -> bool:
        """In a loop over batches(): whether the micro-batch is this rank's last one of the step."""
        return self._last

    # --- a step

    def batches(self, dataset, *, steps: int, shuffle: bool = True, collate_fn: Callable | None = None,
                num_workers: int = 0, finish: bool = True) -> Iterator[Batch]:
        """This rank's micro-batches of every step until `steps` are applied; then waits until all ranks may end.

        Going on to the first micro-batch of the next step makes the step (as step() does, if the script has not called
        it). A step that did not happen comes again. Leaving the loop early leaves the step undone. `finish`: False where
        another loop follows, which has a higher number of steps.
        """
        if self._finished:
            raise UserError(f"batches() was called after training had ended with step {self.steps}: give the loops before "
                            "the last one finish=False")
        if self._looping:
            raise UserError("batches() was called within another loop over batches()")
        self._source = BatchSource(dataset, global_batch=self.global_batch, seed=self.seed, micro_batch=self.micro_batch,
                                   shuffle=shuffle, collate_fn=collate_fn, num_workers=num_workers, device=self._device)
        self._data = self._source.fingerprint_text() + f"\nsteps={steps}"
        self._data_word = float(seed_for(self._data) % 2**52)
        self._total_steps = steps
        self._looping = True
        try:
            while True:
                while self.steps < steps:
                    yield from self._step_of(self._source)
                if not finish or self.finish():
                    return
        finally:
            self._looping = False
            self._source.close()
            if self._in_step:
                _logger.warning("step %d did not happen: the loop was left in it", self.steps + 1)
                self._training.put_back()
                self._in_step = False

    def _step_of(self, source: BatchSource) -> Iterator[Batch]:
        begin, end = self.begin()
        number = self.steps + 1
        self._left = end - begin
        for batch in source.load(number, begin, end):
            first = end - self._left
            self._left -= len(batch)
            self._batch_size = len(batch)
            self._batch_computed = False
            self._position.enter(Phase.COMPUTE)
            with torch_seeded(seed_for(self.seed, number, first), self._device):
                yield batch
            if not self._in_step:  # the script called step()
                return
            if self._communicator.over:
                self._left = 0  # the step will not happen
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
        self._passes = 0
        self._left = 0  # samples that batches() has not given yet
        self._batch_size = 0  # 0: a loop of the script's own
        self._loss: float | torch.Tensor = 0.0
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
        if self._batch_size and self._batch_computed:
            raise UserError("backward() was called twice for one micro-batch: add the losses up and call it once")
        weight = float(self._batch_size or 1) if weight is None else float(weight)
        if not 0 <= weight < math.inf:
            raise UserError(f"backward() was given the weight {weight:g}; weights are positive numbers, or 0")
        if loss.numel() != 1:
            raise UserError(f"backward() takes one number, the mean loss of the micro-batch; it was given {tuple(loss.shape)}")
        if not loss.requires_grad:
            raise UserError("backward() was given a loss that requires no gradient: compute it from the model's output, "
                            "without no_grad(), detach() or item()")
        if self._passes == 0:
            self._follow_frozen()
        else:
            self._buckets.check()
        self._passes += 1
        self._batch_computed = True
        if weight == 0 or self._communicator.over:
            return  # it adds nothing, or the step will not happen
        self._weight += weight
        value = loss.item() if self._on_cpu else loss.detach().double().reshape(())  # does not wait for a GPU
        self._loss = self._loss + value * weight
        if self._batch_size and self._left == 0:
            self._buckets.arm(self._communicator)
        scaled = loss if self._scaler is None else self._scaler.scale(loss)
        scaled.backward(torch.full_like(loss, weight / self.global_batch))
        self._buckets.seal()

    def step(self) -> bool:
        """Reduces and applies the step. False: it did not happen; the state is as before, or another rank's newer one."""
        if not self._in_step:
            raise UserError("step() was called outside of a step: call begin() first")
        if self._left > 0:
            raise UserError(f"step() was called while {self._left} samples of the step were left: with micro_batch a step has "
                            "several micro-batches; leave step() out of the loop over batches(), which makes the step")
        if not self._communicator.over:
            if self._passes == 0:
                raise UserError(f"step {self.steps + 1} was made without job.backward()")
            self._buckets.check()
        try:
            loss = self._reduce()
        except WorldOver as over:
            self._training.put_back()
            self._in_step = False
            self._change(over)
            return False
        self._committed()
        self._training.certain()
        self._position.enter(Phase.UPDATE)
        self._update()
        self._applied(loss)
        return True

    def _update(self) -> None:
        if self._scaler is not None and self._before_update:
            self._scaler.unscale_(self.optimizer)
        for function in self._before_update:
            function()
        self._updating = True
        try:
            if self._scaler is None:
                self.optimizer.step()
            elif not self._scaled_step():
                return
        finally:
            self._updating = False
        for function in self._after_step:
            function()

    def _scaled_step(self) -> bool:
        """False: gradients overflowed on some rank, so that on all of them the optimizer has made no step."""
        before = self._scaler.get_scale()
        self._scaler.step(self.optimizer)
        self._scaler.update()
        return self._scaler.get_scale() >= before

    def _check_update(self, *_) -> None:
        if not self._updating and not self._finished:
            raise UserError("the script called optimizer.step(): the job makes the update, once the step is certain; leave "
                            "it out")

    def _make_buckets(self) -> None:
        self._trainable = [parameter.requires_grad for _, parameter in self._named]
        self._buckets = Buckets([(name, parameter) for name, parameter in self._named if parameter.requires_grad])

    def _follow_frozen(self) -> None:
        """The script may freeze parameters and let them go, by the number of the step."""
        if [parameter.requires_grad for _, parameter in self._named] == self._trainable:
            return
        self._buckets.close()
        for _, parameter in self._named:
            parameter.grad = None
        self._make_buckets()
        self._buckets.zero()

    def _reduce(self) -> float:
        """The mean loss of the step; the parameters' gradients are means then."""
        self._position.enter(Phase.REDUCE)
        waiting = time.monotonic()
        communicator, size = self._communicator, self._world.size
        epoch = self._world.epoch
        unused = self._buckets.unused()
        changed = self._training.changed_buffers()
        of_ranks = [0.0] * (2 * size)
        of_ranks[size + self.rank] = self._data_word
        on_host = isinstance(self._loss, float)
        if on_host:
            of_ranks[self.rank] = not math.isfinite(self._loss)
        votes = torch.tensor([self._loss if on_host else 0.0, self._weight, self._membership.switch_wanted(epoch),
                              self.rank == 0 and self._membership.checkpoint_wanted(epoch), len(unused), len(changed),
                              *of_ranks], dtype=torch.float64, device=self._device)
        if not on_host:
            votes[0] = self._loss
            votes[_VOTES + self.rank] = ~torch.isfinite(self._loss)
        self._buckets.flush(communicator)
        voted = communicator.all_reduce(votes)
        statistics = self._training.statistics(self._weight, self.rank == 0) if self.model.training else None
        averaged = None if statistics is None else communicator.all_reduce(statistics)
        self._buckets.wait()
        voted.wait()
        if averaged is not None:
            averaged.wait()
        total, weights, leave, checkpoint, missing, others, *of_ranks = votes.tolist()
        compare_texts(communicator, self._data, of_ranks[size:])
        if missing:
            self._drop_unused(unused)
        if others:
            self._share_buffers(changed)
        self._waited = time.monotonic() - waiting
        culprits = [rank for rank, bad in enumerate(of_ranks[:size]) if bad]
        if culprits:
            raise UserError(f"step {self.steps + 1}: the loss of rank {culprits[0]} is not a finite number: training "
                            "diverged; try a smaller learning rate, or look at the data")
        if not weights > 0:
            raise UserError(f"step {self.steps + 1}: the sum of all weights is {weights:g}; weights are positive numbers")
        if not self._buckets.scale(self.global_batch / weights) and self._scaler is None:
            raise UserError(f"step {self.steps + 1}: a gradient is not a finite number: training diverged; try a smaller "
                            "learning rate, or look at the data")
        if statistics is not None:
            self._training.put_statistics(statistics, weights)
        self._leave = leave > 0
        self._checkpoint_wanted = self._checkpoint_wanted or checkpoint > 0
        return total / weights

    def _drop_unused(self, unused: list[int]) -> None:
        counts = torch.zeros(self._buckets.count, device=self._device)
        counts[unused] = 1
        self._communicator.all_reduce(counts).wait()
        self._buckets.drop([number for number, count in enumerate(counts.tolist()) if count == self._world.size])

    def _share_buffers(self, changed: list[int]) -> None:
        """Buffers that the script's forward passes change, but for running averages, are those of rank 0."""
        buffers = self._training.other_buffers()
        counts = torch.zeros(len(buffers), device=self._device)
        counts[changed] = 1
        self._communicator.all_reduce(counts).wait()
        for buffer, count in zip(buffers, counts.tolist()):
            if count > 0:
                values = buffer.detach().to(self._device, copy=True, memory_format=torch.contiguous_format)
                self._communicator.broadcast(values, 0)
                buffer.copy_(values)

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
        self._mean_loss = loss
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

    def before_update(self, function: Callable[[], Any]) -> None:
        """Has `function` called before each update, once all gradients are means over the whole batch. To clip them:
        `job.before_update(lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))`."""
        self._before_update.append(function)

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
                self._keeper.take(self._held, self._training.as_dict, wait_s=self._timeout)
            self._committed()
            self._position.enter(Phase.DONE)
            if self._keeper is not None:
                self._keeper.wait(self._timeout)
            if not self._trained:
                self._membership.nothing_trained()
            if self._membership.finish(self._world, progress):
                self._finished = True
                self._membership.unwatch()
                self._communicator.close()
                self._buckets.close()
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
        restored = self._keeper.restore(self._held, self.model.state_dict())
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
        if world.size > self.global_batch:
            raise UserError(f"global_batch is {self.global_batch}, less than the {world.size} ranks of the world: raise it, or "
                            "lower spec.worker.maxReplicas")
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
        if self._held.origin == "other" and self._keeper is not None:
            self._keep_other()
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

    def _keep_other(self) -> None:
        """A world that begins with another job's state makes it its own first: whatever becomes of that other job then,
        this one goes on."""
        for attempt in itertools.count():
            complete = self.rank == 0 and self._keeper.keep_other(self._held, self._training.as_dict)
            done = torch.tensor([float(complete)], device=self._device)
            self._communicator.all_reduce(done).wait()
            if done.item():
                return
            self._pause(attempt)

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


def _check_optimizer(optimizer: torch.optim.Optimizer, named: list[tuple[str, torch.nn.Parameter]]) -> None:
    if isinstance(optimizer, torch.optim.LBFGS):
        raise UserError("LBFGS computes the loss several times a step: use an optimizer that needs gradients once")
    known = {parameter for _, parameter in named}
    for number, group in enumerate(optimizer.param_groups):
        if any(parameter not in known for parameter in group["params"]):
            raise UserError(f"group {number} of the optimizer has parameters that are not the model's: give join() one module "
                            "that has all of them")
