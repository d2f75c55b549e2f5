"""Worlds, their members, and the interface to the source of worlds.

`Membership` has two implementations: `agent.AgentMembership` in a job, `alone.LoneMembership` without one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from typing import NamedTuple

from .errors import listed

_PEERS_NAMED = 4  # number of peers that a message names


class Epoch(NamedTuple):
    """Identifies a world. Epochs are ordered by the launcher's term, then by number. Epoch() means "none yet"."""

    term: int = 0
    number: int = 0


@dataclass(frozen=True)
class Member:
    """A rank process in a world, identified by (pod_uid, slot, start)."""

    pod_uid: str
    pod: str  # the Pod's name, for messages and logs
    node: str  # the node's name, for messages and logs
    address: str  # the address at which the worker's ranks listen for other ranks
    slot: int  # 0 … slots - 1 within the worker
    start: str  # differs for every start of a process in the slot

    @property
    def name(self) -> str:
        """Returns the name that the audit log uses."""
        return f"{self.pod}/{self.slot}/{self.start}"


@dataclass(frozen=True)
class World:
    """The ranks that train together, and the rank of this process."""

    epoch: Epoch
    rank: int
    members: tuple[Member, ...]  # by rank
    full_size: int = 0  # the number of ranks that the job wants; 0: unknown

    @property
    def size(self) -> int:
        return len(self.members)

    def full_share(self, global_batch: int) -> int:
        """Returns the maximum number of samples that a rank computes in a step when all workers of the job are
        present."""
        return -(-global_batch // (self.full_size or self.size))

    @property
    def me(self) -> Member:
        return self.members[self.rank]

    @property
    def address(self) -> str:
        return self.me.address

    def name_peers(self, error: str) -> str:
        """Returns, as text for messages, the ranks and Pods of the peers whose address is in Gloo's error. If the error
        contains no such address, returns all peers."""
        others = [(rank, member) for rank, member in enumerate(self.members) if rank != self.rank]
        found = [(rank, member) for rank, member in others if f"[{member.address}]" in error] or others
        names = [f"rank {rank} ({member.pod})" for rank, member in found]
        return listed(names, _PEERS_NAMED)

    @cached_property
    def local_rank(self) -> int:
        """Returns the index of this rank among the ranks of its worker, from 0."""
        return sum(member.pod_uid == self.me.pod_uid for member in self.members[: self.rank])

    @cached_property
    def ranks_on_host(self) -> int:
        """Returns the number of ranks on this node, or on this worker if nodes have no names."""
        me = self.me
        return sum(m.pod_uid == me.pod_uid or (m.node != "" and m.node == me.node) for m in self.members)

    @cached_property
    def workers(self) -> int:
        return len({member.pod_uid for member in self.members})


@dataclass
class Progress:
    """The training progress after rank 0's last committed step."""

    step: int  # steps committed so far
    total_steps: int = 0  # 0: unknown
    samples_per_second: float = 0.0
    loss: float = 0.0
    accuracy: float = -1.0  # held-out accuracy in [0, 1]; -1 until measured


class KeptCheckpoint(NamedTuple):
    """The newest complete checkpoint of this job."""

    step: int
    nbytes: int = 0  # total size of all complete checkpoints that are kept
    age_millis: int = 0  # time since it was completed, by the volume's clock


class Store(ABC):
    """The store through which the ranks of a world connect. A key is written once, and every rank may read it.
    Thread-safe."""

    @abstractmethod
    def set(self, key: str, value: bytes) -> None:
        """Sets `key`. Raises PeerLost if the agent is gone."""

    @abstractmethod
    def get(self, keys: Sequence[str], deadline: float) -> list[bytes]:
        """Blocks until every key exists, and returns the values in the order of `keys`.

        `deadline` is a value of time.monotonic(). Raises TimeoutError if a key does not exist by then, and WorldOver if
        the world has ended. Raises PeerLost if the agent is gone.
        """


class Membership(ABC):
    """The source of a rank's worlds, and the receiver of the rank's reports.

    One thread may use it, with two exceptions: another thread may call the functions for checkpoints, and any thread
    may call why_over() and unprotected(). In a forked child, every wait raises PeerLost, and messages are not sent.
    """

    @abstractmethod
    def await_world(self, after: Epoch) -> World:
        """Blocks, without a time limit, until this rank is in a world above `after`, and returns the world.

        The first call reports that the rank has loaded and is ready. Raises PeerLost if no other world will follow.
        """

    @abstractmethod
    def why_over(self, epoch: Epoch) -> str | None:
        """Returns why the ranks of `epoch` must leave it, or None while it is valid. Does not block; callable from any
        thread."""

    @abstractmethod
    def watch(self, epoch: Epoch, over: Callable[[str], None]) -> None:
        """Calls `over` once, with the reason, when `epoch` is over, or immediately if it is already over. Only one
        watch may exist at a time.

        The callback runs on any thread, must not raise, and must not call this object.
        """

    @abstractmethod
    def unwatch(self) -> None:
        """Ends the watch. When this returns, the callback is not running and will not be called."""

    def switch_wanted(self, epoch: Epoch) -> bool:
        """Returns whether the ranks of `epoch` must leave it together after the next step."""
        return False

    def leaving(self, epoch: Epoch) -> bool:
        """Returns whether this rank must leave the job after `epoch`, as far as is known."""
        return False

    def checkpoint_wanted(self, epoch: Epoch) -> bool:
        """Returns whether the job will be suspended after the next step, with a checkpoint of that step. Returns True
        only once. Only rank 0 calls this function."""
        return False

    def await_suspension(self, world: World, progress: Progress, timeout: float) -> None:
        """Blocks until the ranks of `world` must leave it, but for at most `timeout` seconds. Call it after the step
        for which checkpoint_wanted() returned True."""

    @abstractmethod
    def broken(self, world: World, peer: int, reason: str) -> None:
        """Reports that the world cannot continue because of `peer` (-1 if unknown). Does not block."""

    @abstractmethod
    def at_boundary(self, world: World, step: int) -> None:
        """Reports that this rank left the world after `step`, as switch_wanted() requested, and that it waits for the
        next world."""

    @abstractmethod
    def report(self, world: World, progress: Progress) -> None:
        """Reports committed progress. Rank 0 calls it. At most two reports per second are sent; the others are
        dropped."""

    @abstractmethod
    def finish(self, world: World, progress: Progress) -> bool:
        """Blocks, after the last step, until all ranks may exit (returns True) or the world ends (returns False).

        If the ranks must leave the world in the meantime, calls at_boundary(). Raises PeerLost if the agent is gone.
        """

    def await_grant(self, step: int, shard: int, nbytes: int, checksum: str, stop: Event) -> None:
        """Blocks until the launcher grants this rank's part of a checkpoint, in this world or a later one.

        `checksum` is the checksum of the part's data, in hex. Raises Unavailable if `stop` was set first. Raises
        PeerLost if the agent is gone.
        """

    def checkpoint_complete(self, step: int, nbytes: int) -> None:
        """Reports that the last granted checkpoint is complete. `nbytes` is the total size of the checkpoints that are
        kept."""

    def began(self, world: World, step: int, text: str, kept: KeptCheckpoint | None) -> None:
        """Reports the state from which training starts: its step, a message for the user (or ""), and the newest kept
        checkpoint. Rank 0 of the first world calls this function."""

    def nothing_trained(self) -> None:
        """Reports that the state contains no step of this job. Call it before finish()."""

    def unprotected(self, what: str, reason: str) -> None:
        """Reports why "checkpoint", "snapshot" or "restore" is not possible now; an empty reason means that it is
        possible again."""

    @abstractmethod
    def store(self, world: World) -> Store:
        """Returns the world's store, which can be used until the membership is closed."""

    def close(self) -> None:
        """Ends the connection. Afterwards, every wait raises PeerLost."""
