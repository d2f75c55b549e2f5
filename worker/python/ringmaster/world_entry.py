"""Moves a rank from one world to the next: waits, connects, synchronizes the state of the ranks, and leaves."""

from __future__ import annotations

import itertools
import logging
import time

import torch

from .audit_log import AuditLog
from .checkpoint import Keeper
from .errors import Unavailable, UserError, WorldOver
from .position import Phase, Position
from .state import LocalState, TrainingState
from .sync import StateSync
from .transport import Communicator
from .world import Epoch, Membership, Progress, World

_logger = logging.getLogger("ringmaster")

# Maximum wait of a suspension: two minutes for its checkpoint, and half a minute until the ranks end.
_SUSPENSION_LIMIT = 150.0

_STUCK = 60.0  # seconds


class WorldEntry:
    """Joins and leaves worlds. After join(), `world` and `communicator` belong to the current world, and `held` is the
    state of the rank. `ending` says that the ranks entered this world with a state with which training ends.

    Thread-safety: one thread.
    """

    world: World
    communicator: Communicator
    ending: bool

    def __init__(self, membership: Membership, training: TrainingState, device: torch.device, *, position: Position,
                 audit: AuditLog, keeper: Keeper | None, settings: str, timeout: float, global_batch: int):
        self.held = LocalState()
        self._membership = membership
        self._training = training
        self._device = device
        self._position = position
        self._audit = audit
        self._keeper = keeper
        self._settings = settings
        self._timeout = timeout
        self._global_batch = global_batch
        self._connected: Communicator | None = None  # the current communicator, even before it is connected

    def join(self) -> None:
        """Blocks, without a time limit, until this rank is in a world whose ranks have the same state."""
        if self._keeper is not None:
            try:
                self._restore()  # load now, while no other rank waits
            except Unavailable as error:
                _logger.warning("failed to load a checkpoint: %s", error)
        self._enter_next(Epoch())

    def change(self, over: WorldOver) -> None:
        """Leaves the current world, which has ended, and waits for the next one."""
        self._leave(over)
        self._enter_next(self.world.epoch)

    def await_suspension(self, progress: Progress) -> None:
        """Saves the state of the committed step and waits for the end of the job, because further steps would be lost.

        `progress` is the progress after the step. Raises WorldOver if another world may follow.
        """
        limit = time.monotonic() + _SUSPENSION_LIMIT
        self._position.enter(Phase.DONE)
        if self.world.rank == 0 and self._keeper is not None:
            self._keep_until(limit, self._keeper)
        self._membership.await_suspension(self.world, progress, limit - time.monotonic())
        reason = self._membership.why_over(self.world.epoch)
        if reason is not None:
            raise WorldOver(reason, told=True)
        if not self._membership.switch_wanted(self.world.epoch):
            _logger.warning("the job was suspended after step %d, but its ranks were not stopped within %g s; training "
                            "continues", self.held.version.step, _SUSPENSION_LIMIT)

    def _keep_until(self, limit: float, keeper: Keeper) -> None:
        """Waits until the earlier checkpoint is written, but not beyond `limit` (a value of time.monotonic()), and then
        saves the current state."""
        epoch = self.world.epoch
        while not keeper.take(self.held, self._training.as_dict, wait_s=0.2):
            if (time.monotonic() > limit or self._membership.why_over(epoch) is not None
                    or self._membership.switch_wanted(epoch)):
                return

    def keep_if_due(self) -> None:
        """If a checkpoint of this job's training is due, rank 0 starts saving it. All ranks must have applied its step.
        Does nothing if training ends with this step, which keep_last() saves."""
        if self._keeper is None or self.held.finishing or self.held.origin != "training":
            return
        if self.world.rank == 0 and self._keeper.due(self.held.version.step):
            self._position.enter(Phase.EVALUATE)  # copying a large state takes long
            self._keeper.take(self.held, self._training.as_dict)

    def keep_last(self) -> None:
        """Rank 0 saves the state after the last step, and waits until it is written or the world ends. Gives up if the
        volume takes no data for _STUCK seconds, not counting the time in which the launcher is asked for the grant."""
        keeper = self._keeper
        if self.world.rank != 0 or keeper is None:
            return
        written, since = -1, 0.0
        while not (keeper.take(self.held, self._training.as_dict, wait_s=0.2) and keeper.wait(0.2)):
            if self._membership.why_over(self.world.epoch) is not None:
                return
            if keeper.awaits_grant or keeper.written() != written:
                written, since = keeper.written(), time.monotonic()
            elif time.monotonic() - since > _STUCK:
                reason = f"the volume took no data of the last checkpoint for {_STUCK:g} s"
                _logger.warning("training ends without a checkpoint of step %d: %s", self.held.version.step, reason)
                self._membership.unprotected("checkpoint", reason)
                return

    def leave_at_boundary(self) -> None:
        """Leaves the world together with all its ranks after the applied step, and waits for the next one. Closes the
        communicator only then: over NCCL, a peer may need this rank to forward the end of the last collective."""
        self._membership.unwatch()
        self._membership.at_boundary(self.world, self.held.version.step)
        self._enter_next(self.world.epoch)

    def end(self) -> None:
        """Ends this rank's part in the job. Call it once all ranks are released."""
        self._membership.unwatch()
        self.communicator.close()
        if self._keeper is not None:
            self._keeper.close()

    def _enter_next(self, after: Epoch) -> None:
        while True:
            self._position.enter(Phase.WAIT)
            try:
                self.world = self._membership.await_world(after)
            finally:
                if self._connected is not None:
                    self._close("all ranks left together")
            after = self.world.epoch
            try:
                self._enter()
                return
            except WorldOver as over:
                self._leave(over)

    def _enter(self) -> None:
        world = self.world
        if world.size > self._global_batch:
            raise UserError(f"global_batch is {self._global_batch}, but the world has {world.size} ranks, each of which "
                            "needs a sample; raise global_batch in the script, or set spec.worker.maxReplicas so that the job "
                            f"has at most {self._global_batch} ranks")
        start = time.monotonic()
        self._position.enter_world(world.epoch)
        self.communicator = self._connected = Communicator(world, self._device, self._timeout)
        self._membership.watch(world.epoch, self.communicator.abort)
        self.communicator.connect(self._membership.store(world))
        began = self.held.origin != "training"
        look_again = None if self._keeper is None else self._look_again
        adopted = StateSync(self.communicator, self._training, self.held, self._settings, self._position, look_again,
                            self._pause).run()
        self._membership.unprotected("restore", "")
        self.held, self.ending = adopted.held, adopted.held.finishing
        origin, step = self.held.origin, self.held.version.step
        self._position.set_step(step)
        if self._keeper is not None:
            if origin == "other":
                self._keep_other(self._keeper)
            if began and world.rank == 0:
                self._report_beginning(self._keeper)
        self._audit.entered(world, self._global_batch, self.held.epoch_of_run(), step,
                            "checkpoint" if origin == "other" else origin, adopted.checksum)
        _logger.info("entered world %d.%d as rank %d of %d after step %d in %.0f ms", *world.epoch, world.rank, world.size,
                     step, 1e3 * (time.monotonic() - start))

    def _report_beginning(self, keeper: Keeper) -> None:
        text, kept = keeper.beginning(self.held)
        if text or kept:
            self._membership.began(self.world, self.held.version.step, text, kept)

    def _keep_other(self, keeper: Keeper) -> None:
        """If this world starts from another job's state, saves the state as a checkpoint of this job, so that this job
        no longer depends on the other job."""
        for attempt in itertools.count():
            complete = self.world.rank == 0 and keeper.keep_other(self.held, self._training.as_dict)
            done = torch.tensor([float(complete)], device=self._device)
            self.communicator.all_reduce(done).wait()
            if done.item():
                return
            self._pause(attempt)

    def _restore(self) -> LocalState:
        restored = self._keeper.restore(self.held, self._training.model.state_dict())
        if restored is not None:
            self._training.load(restored.state)
            self.held = restored.held
        return self.held

    def _look_again(self, held: LocalState) -> LocalState:
        try:
            return self._restore()
        except Unavailable as error:
            self._membership.unprotected("restore", str(error))
            raise

    def _pause(self, attempt: int) -> None:
        """Waits before another attempt to read or write a checkpoint. Returns early if the world ends."""
        limit = time.monotonic() + min(0.1 * 2**attempt, 5.0, self._timeout / 4)
        while time.monotonic() < limit and self._membership.why_over(self.world.epoch) is None:
            time.sleep(0.02)

    def _leave(self, over: WorldOver) -> None:
        reason = str(over) if over.told else f"{self._position.doing()} with {self.world.name_peers(str(over))}: {over}"
        self._close(reason)
        _logger.warning("left world %d.%d after step %d: %s", *self.world.epoch, self.held.version.step, reason)
        if not over.told:
            self._membership.broken(self.world, over.peer, reason)

    def _close(self, reason: str) -> None:
        self._membership.unwatch()
        if self._connected is not None:
            self._connected.abort(reason)
            self._connected.close()
            self._connected = None
        if self._keeper is not None:
            self._keeper.world_ended()
