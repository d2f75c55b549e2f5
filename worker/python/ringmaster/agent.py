"""The membership of a rank in a job, as reported by the agent that started the rank.

A separate thread reads messages and calls the watch's callback. A rank that waits for a silent peer therefore wakes up
as soon as its world is abandoned. A rank ends with its agent: once the connection is lost, every wait raises PeerLost.
A forked child, such as a DataLoader's worker, loses the connection, but the rank itself keeps it.
"""

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from . import messages
from .alone import LoneMembership
from .connection import AgentConnection
from .errors import PeerLost, RingmasterError, Unavailable, UserError, WorldOver
from .world import Epoch, KeptCheckpoint, Membership, Progress, Store, World

_REPORT_INTERVAL = 0.5  # seconds
_STOP_INTERVAL = 0.1  # seconds between checks of an Event, which cannot wake a thread that waits here
_CLOSE_LIMIT = 10.0  # seconds for the reader to end

_log = logging.getLogger("ringmaster")


def join_membership() -> Membership:
    """Returns this process's membership. In a job, the agent announces the worlds; without an agent, there is one world
    with only this process.

    Raises Unavailable if no agent listens on the socket, and UserError if a variable that names the socket or the slot
    is invalid.
    """
    path = os.environ.get("RINGMASTER_AGENT_SOCKET")
    if path is None:
        return LoneMembership()
    slot = os.environ.get("RINGMASTER_SLOT", "0")
    if not (slot.isascii() and slot.isdigit()):
        raise UserError(f"RINGMASTER_SLOT is {slot!r}, which is not a number; do not change it")
    return AgentMembership(path, int(slot))


class AgentMembership(Membership):
    """Connects without sending a message. Raises the errors of AgentConnection. `clock` returns seconds."""

    def __init__(self, path: str, slot: int, clock: Callable[[], float] = time.monotonic):
        self._slot = slot
        self._clock = clock
        self._connection = AgentConnection(path)
        # Used by the calling thread.
        self._greeted = False
        self._trained = True
        self._last_report: tuple[Epoch, float] | None = None
        # Used by the thread that writes checkpoints.
        self._granted: messages.CheckpointWritten | None = None
        # Locked while the callback runs, so that it does not run after unwatch() has returned.
        self._watch_lock = threading.Lock()
        self._watched: tuple[Epoch, Callable[[str], None]] | None = None
        # Guards all fields below.
        self._changed = threading.Condition()
        self._newest: messages.RankEpoch | None = None  # the highest world the agent sent
        self._below = Epoch()  # every epoch below is over
        self._switch = Epoch()  # the newest epoch that the ranks must leave after a step
        self._leaving = False  # this rank is not in the world after _switch
        self._released = Epoch()
        self._grant: messages.CheckpointGrant | None = None  # the newest grant
        self._take_checkpoint: Epoch | None = None  # the epoch that wants one, until checkpoint_wanted() is called
        self._lost: str | None = None  # why the connection ended
        self._questions: dict[int, list[bytes] | None] = {}  # pending requests of stores, with their answers
        self._next_question = 1
        forked = weakref.WeakMethod(self._forked)
        os.register_at_fork(after_in_child=lambda: (method := forked()) and method())
        self._reader = threading.Thread(target=self._read, name="ringmaster-agent", daemon=True)
        self._reader.start()

    def close(self) -> None:
        self._connection.shut_down()
        self._reader.join(_CLOSE_LIMIT)
        self._connection.close()

    def _forked(self) -> None:
        # The child does not have the other threads, which may have locked the locks.
        self._changed = threading.Condition()
        self._watch_lock = threading.Lock()
        self._watched = None
        self._lost = "this process was forked from a rank; only the rank may use its connection to the agent"
        self._connection.close()

    # --- worlds

    def await_world(self, after: Epoch) -> World:
        if not self._greeted:
            self._send(messages.RankHello(self._slot, os.getpid()))
            self._greeted = True
        told = self._await_epoch(after)
        return World(told.epoch, told.rank, told.members, told.full_size)

    def why_over(self, epoch: Epoch) -> str | None:
        with self._changed:
            return self._why_over(epoch)

    def watch(self, epoch: Epoch, over: Callable[[str], None]) -> None:
        with self._watch_lock:
            self._watched = (epoch, over)
        self._notify_watcher()

    def unwatch(self) -> None:
        with self._watch_lock:
            self._watched = None

    def switch_wanted(self, epoch: Epoch) -> bool:
        with self._changed:
            return self._switch == epoch

    def leaving(self, epoch: Epoch) -> bool:
        with self._changed:
            return self._switch == epoch and self._leaving

    def broken(self, world: World, peer: int, reason: str) -> None:
        self._say(messages.RankBroken(world.epoch, world.rank, peer, reason))

    def at_boundary(self, world: World, step: int) -> None:
        self._say(messages.RankAtBoundary(world.epoch, world.rank, step))

    def report(self, world: World, progress: Progress) -> None:
        now = self._clock()
        if self._last_report is not None:
            epoch, then = self._last_report
            if epoch == world.epoch and now - then < _REPORT_INTERVAL:
                return
        self._last_report = (world.epoch, now)
        self._say(messages.RankProgress(world.epoch, progress))

    def finish(self, world: World, progress: Progress) -> bool:
        if world.rank == 0:
            self._say(messages.RankProgress(world.epoch, progress))
        self._say(messages.RankDone(world.epoch, world.rank, self._trained))
        if self._await_end(world.epoch, or_switch=True):
            self.at_boundary(world, progress.step)
            self._await_end(world.epoch, or_switch=False)
        with self._changed:
            return self._released >= world.epoch

    def nothing_trained(self) -> None:
        self._trained = False

    def began(self, world: World, step: int, text: str, kept: KeptCheckpoint | None) -> None:
        self._say(messages.RankBegan(world.epoch, world.rank, messages.Beginning(step, text), kept))

    # --- checkpoints

    def checkpoint_wanted(self, epoch: Epoch) -> bool:
        with self._changed:
            wanted, self._take_checkpoint = self._take_checkpoint, None
            return wanted == epoch

    def await_suspension(self, world: World, progress: Progress, timeout: float) -> None:
        if world.rank == 0:
            self._say(messages.RankProgress(world.epoch, progress))
        deadline = time.monotonic() + timeout
        with self._changed:
            self._wait(lambda: self._why_over(world.epoch) is not None or self._switch == world.epoch, deadline=deadline)

    def await_grant(self, step: int, shard: int, nbytes: int, checksum: str, stop: threading.Event) -> None:
        # If a world ends before the launcher has answered, ask again in the next one. The written state is committed
        # in every world of which this rank is still a member.
        asked = Epoch()
        while True:
            world = self._await_epoch(asked, stop)
            asked = world.epoch
            written = messages.CheckpointWritten(asked, world.rank, step, shard, nbytes, checksum)
            self._send(written)
            if self._await_answer(written, stop):
                self._granted = written
                return

    def checkpoint_complete(self, step: int, nbytes: int) -> None:
        granted = self._granted
        if granted is not None:
            self._say(messages.CheckpointDone(granted.epoch, granted.rank, step, nbytes))

    def unprotected(self, what: str, reason: str) -> None:
        self._say(messages.RankProtection(self._slot, what, reason))

    # --- the store

    def store(self, world: World) -> Store:
        return _WorldStore(self, world)

    def set_key(self, epoch: Epoch, key: str, value: bytes) -> None:
        """Sets `key` in the store of `epoch`. Called by stores."""
        self._send(messages.StoreSet(epoch, key, value))

    def get_keys(self, world: World, keys: Sequence[str], deadline: float) -> list[bytes]:
        """Returns the values of `keys` in the store of `world`, in the order of `keys`. Called by stores."""
        with self._changed:
            question = self._next_question
            self._next_question += 1
            self._questions[question] = None
        try:
            self._send(messages.StoreGet(world.epoch, question, world.rank, list(keys)))
            with self._changed:
                self._wait(
                    lambda: self._questions[question] is not None or self._why_over(world.epoch) is not None,
                    deadline=deadline,
                )
        finally:
            with self._changed:
                values, over = self._questions.pop(question), self._why_over(world.epoch)
        if values is None:
            self._check_connection("waiting for the other ranks' addresses")
            if over is not None:
                raise WorldOver(over, told=True)
            raise TimeoutError(f"not all ranks published their addresses in time ({len(keys)} keys)")
        if len(values) != len(keys):
            raise RingmasterError(f"the rendezvous store returned {len(values)} values for {len(keys)} keys")
        return values

    # --- messages from the agent

    def _read(self) -> None:
        try:
            for message in self._connection.receive():
                self._take(message)
                self._notify_watcher()
        except Exception as error:  # every error must be reported to the rank
            self._lose(f"listening to the agent: {error or type(error).__name__}")
        else:
            self._lose("listening to the agent: it closed the connection")
        self._notify_watcher()

    def _take(self, message: Any) -> None:
        with self._changed:
            if isinstance(message, messages.RankEpoch):
                if not 0 <= message.rank < len(message.members):
                    _log.warning("Ignored a world without this rank: number %d", message.epoch.number)
                elif self._newest is None or message.epoch > self._newest.epoch:
                    self._newest = message
            elif isinstance(message, messages.RankLeave):
                self._below = max(self._below, message.below)
            elif isinstance(message, messages.RankSwitch):
                self._switch = max(self._switch, message.epoch)
                if message.epoch == self._switch:
                    self._leaving = message.leaving
            elif isinstance(message, messages.Release):
                self._released = max(self._released, message.epoch)
            elif isinstance(message, messages.CheckpointGrant):
                self._grant = message
            elif isinstance(message, messages.TakeCheckpoint):
                self._take_checkpoint = message.epoch
            elif isinstance(message, messages.StoreValues) and message.id in self._questions:
                self._questions[message.id] = message.values
            self._changed.notify_all()

    def _lose(self, reason: str) -> None:
        with self._changed:
            self._lost = reason
            self._changed.notify_all()

    def _notify_watcher(self) -> None:
        with self._watch_lock:
            if self._watched is None:
                return
            epoch, over = self._watched
            why = self.why_over(epoch)
            if why is None:
                return
            self._watched = None
            try:
                over(why)
            except Exception:  # the thread must continue
                _log.exception("Failed to leave a world that has ended")

    # --- waiting

    def _why_over(self, epoch: Epoch) -> str | None:
        if self._lost is not None:
            return self._lost
        if epoch < self._below:
            return "the launcher abandoned this world"
        if self._newest is not None and epoch < self._newest.epoch:
            return "a newer world has started"
        return None

    def _wait(
        self,
        ready: Callable[[], bool],
        *,
        stop: threading.Event | None = None,
        deadline: float | None = None,
    ) -> None:
        """Waits until `ready()` is true, `stop` is set or the deadline passes. The caller must have locked _changed."""
        while not ready() and not (stop is not None and stop.is_set()):
            left = None if deadline is None else min(deadline - time.monotonic(), threading.TIMEOUT_MAX)
            if left is not None and left <= 0:
                return
            self._changed.wait(left if stop is None else _STOP_INTERVAL)

    def _await_epoch(self, after: Epoch, stop: threading.Event | None = None) -> messages.RankEpoch:
        def next_epoch() -> messages.RankEpoch | None:
            newest = self._newest
            return newest if newest is not None and after < newest.epoch >= self._below else None

        with self._changed:
            self._wait(lambda: self._lost is not None or next_epoch() is not None, stop=stop)
            newest = next_epoch()
            _check_stop(stop)
            if self._lost is not None or newest is None:
                raise PeerLost(f"waiting for a world: {self._lost}")
            return newest

    def _await_end(self, epoch: Epoch, *, or_switch: bool) -> bool:
        """Blocks until the epoch is released or over, or the ranks must leave it at a boundary. Returns whether they
        must leave it."""

        def ended() -> bool:
            return self._released >= epoch or self._why_over(epoch) is not None

        with self._changed:
            self._wait(lambda: ended() or (or_switch and self._switch == epoch))
            if self._released < epoch:
                self._check_connection("waiting for the release of the finished ranks")
            return not ended()

    def _await_answer(self, written: messages.CheckpointWritten, stop: threading.Event) -> bool:
        """Blocks until the checkpoint is granted (returns True) or its epoch ends (returns False)."""

        def granted() -> bool:
            wanted = (written.epoch, written.step, written.shard)
            grant = self._grant
            return grant is not None and (grant.epoch, grant.step, grant.shard) == wanted

        with self._changed:
            self._wait(lambda: granted() or self._why_over(written.epoch) is not None, stop=stop)
            if granted():
                return True
            _check_stop(stop)
            self._check_connection("waiting for a checkpoint's grant")
            return False

    def _check_connection(self, doing: str) -> None:
        with self._changed:
            if self._lost is not None:
                raise PeerLost(f"{doing}: {self._lost}")

    # --- sending

    def _send(self, message: Any) -> None:
        with self._changed:
            lost = self._lost
        if lost is not None:
            raise PeerLost(f"sending to the agent: {lost}")
        self._connection.send(message)

    def _say(self, message: Any) -> None:
        """Sends a message. If that fails, the agent is lost, and every wait raises PeerLost."""
        try:
            self._send(message)
        except RingmasterError as error:
            _log.warning("Failed to send a message to the agent: %s", error)


def _check_stop(stop: threading.Event | None) -> None:
    if stop is not None and stop.is_set():
        raise Unavailable("asked to stop")


class _WorldStore(Store):
    def __init__(self, membership: AgentMembership, world: World):
        self._membership = membership
        self._world = world

    def set(self, key: str, value: bytes) -> None:
        self._membership.set_key(self._world.epoch, key, value)

    def get(self, keys: Sequence[str], deadline: float) -> list[bytes]:
        return self._membership.get_keys(self._world, keys, deadline)
