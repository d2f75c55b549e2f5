"""Worlds and where they come from: the values, and the interface to the source of worlds.

`Membership` has two implementations: `agent.AgentMembership` in a job, `alone.LoneMembership` without one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from typing import NamedTuple

from .errors import listed

_PEERS_NAMED = 4  # in one sentence


class Epoch(NamedTuple):
    """Which world: ordered, by the launcher's term first. Epoch() is "none yet"."""

    term: int = 0
    number: int = 0


@dataclass(frozen=True)
class Member:
    """A rank process in a world: (pod_uid, slot, start) says which."""

    pod_uid: str
    pod: str  # the Pod's name, for people
    node: str  # the node's name, for people
    address: str  # where the worker's ranks listen for other ranks
    slot: int  # 0 … slots - 1 within the worker
    start: str  # new for every start of a process in the slot

    @property
    def name(self) -> str:
        """As the audit log names it."""
        return f"{self.pod}/{self.slot}/{self.start}"


@dataclass(frozen=True)
class World:
    """The ranks that train together, and which of them this process is."""

    epoch: Epoch
    rank: int
    members: tuple[Member, ...]  # by rank
    full_size: int = 0  # the ranks that the job wants; 0: not known

    @property
    def size(self) -> int:
        return len(self.members)

    def full_share(self, global_batch: int) -> int:
        """The most samples of a step that a rank has while all workers of the job are there."""
        return -(-global_batch // (self.full_size or self.size))

    @property
    def me(self) -> Member:
        return self.members[self.rank]

    @property
    def address(self) -> str:
        return self.me.address

    def name_peers(self, error: str) -> str:
        """For messages: the peers whose address Gloo names in its error, or all peers, with their Pods."""
        others = [(rank, member) for rank, member in enumerate(self.members) if rank != self.rank]
        found = [(rank, member) for rank, member in others if f"[{member.address}]" in error] or others
        names = [f"rank {rank} ({member.pod})" for rank, member in found]
        return listed(names, _PEERS_NAMED)

    @cached_property
    def local_rank(self) -> int:
        """Among the ranks of this worker."""
        return sum(member.pod_uid == self.me.pod_uid for member in self.members[: self.rank])

    @cached_property
    def ranks_on_host(self) -> int:
        """Ranks of this node, or of this worker where nodes have no names."""
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
    """The job's own newest complete checkpoint."""

    step: int
    nbytes: int = 0  # held by all complete ones that are kept
    age_millis: int = 0  # since it was complete, by the volume's clock


class Store(ABC):
    """The store through which the ranks of one world connect: a key is written once and read by all. Thread-safe."""

    @abstractmethod
    def set(self, key: str, value: bytes) -> None:
        """PeerLost: the agent is gone."""

    @abstractmethod
    def get(self, keys: Sequence[str], deadline: float) -> list[bytes]:
        """Blocks until every key exists; the values are in the order of `keys`.

        `deadline`: a time of time.monotonic(). TimeoutError: a key is missing then. WorldOver: the world has
        ended. PeerLost: the agent is gone.
        """


class Membership(ABC):
    """The source of worlds of a rank, and the receiver of its reports.

    Called from one thread, but for the calls about checkpoints, which come from any one thread, and for
    why_over() and unprotected(), which come from any. In a forked child every wait ends with PeerLost, and
    nothing is sent.
    """

    @abstractmethod
    def await_world(self, after: Epoch) -> World:
        """Blocks, without a time limit, until this rank is in a world above `after`.

        The first call says that the rank has loaded and is ready. PeerLost: no other world will ever come.
        """

    @abstractmethod
    def why_over(self, epoch: Epoch) -> str | None:
        """Why ranks of `epoch` must leave it; None while it is valid. Returns at once; from any thread."""

    @abstractmethod
    def watch(self, epoch: Epoch, over: Callable[[str], None]) -> None:
        """Calls `over` once, with the reason, when `epoch` is over; at once if it is. One watch at a time.

        The callback comes from any thread, must not raise, and must not call this object.
        """

    @abstractmethod
    def unwatch(self) -> None:
        """After it returns, the callback does not run."""

    def switch_wanted(self, epoch: Epoch) -> bool:
        """Whether the ranks of `epoch` must leave it together after the next step."""
        return False

    def leaving(self, epoch: Epoch) -> bool:
        """Whether this rank, as far as is known, is not in the world after `epoch`."""
        return False

    def checkpoint_wanted(self, epoch: Epoch) -> bool:
        """Whether the job is to be suspended with a checkpoint of the step that is about to begin. Asked of rank 0; True
        once."""
        return False

    def await_suspension(self, world: World, progress: Progress, timeout: float) -> None:
        """After that step: blocks until the ranks of `world` must leave it, or for `timeout` seconds."""

    @abstractmethod
    def broken(self, world: World, peer: int, reason: str) -> None:
        """The world cannot go on because of `peer` (-1: unknown which). An observation: returns at once."""

    @abstractmethod
    def at_boundary(self, world: World, step: int) -> None:
        """This rank left the world after `step`, as switch_wanted() asked, and waits for the next."""

    @abstractmethod
    def report(self, world: World, progress: Progress) -> None:
        """Committed progress, from rank 0. Reports that come more often than twice a second are dropped."""

    @abstractmethod
    def finish(self, world: World, progress: Progress) -> bool:
        """After the last step: blocks until all ranks may end (True) or the world ends (False).

        Calls at_boundary() if that is requested meanwhile. PeerLost: the agent is gone.
        """

    def await_grant(self, step: int, shard: int, nbytes: int, checksum: str, stop: Event) -> None:
        """Blocks until the part of a checkpoint that this rank has written may count, also in a later world.

        `checksum`: of its data, in hex. Unavailable: `stop` was set first. PeerLost: the agent is gone.
        """

    def checkpoint_complete(self, step: int, nbytes: int) -> None:
        """The checkpoint that was granted last is complete; `nbytes` are held by all that are kept."""

    def began(self, world: World, step: int, text: str, kept: KeptCheckpoint | None) -> None:
        """The state from which training starts, from rank 0 of the first world: its step, and a sentence or ""."""

    def nothing_trained(self) -> None:
        """Before finish(): no step of the state is of this job."""

    def unprotected(self, what: str, reason: str) -> None:
        """Why "checkpoint", "snapshot" or "restore" is not possible now; an empty reason: it is again."""

    @abstractmethod
    def store(self, world: World) -> Store:
        """The world's store; usable for as long as the membership."""

    def close(self) -> None:
        """Ends the connection: every wait ends with PeerLost."""
