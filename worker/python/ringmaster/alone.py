"""The membership of a process without an agent, which has one static world with only this rank."""

import threading
import time
from collections.abc import Callable, Sequence

from .errors import PeerLost
from .world import Epoch, Member, Membership, Progress, Store, World

_SELF = Member(pod_uid="", pod="static", node="", address="127.0.0.1", slot=0, start="1")


class LoneMembership(Membership):
    """A membership that discards all reports."""

    def __init__(self) -> None:
        self._world = World(Epoch(1, 1), 0, (_SELF,))
        self._store = _MemoryStore()

    def await_world(self, after: Epoch) -> World:
        if after < self._world.epoch:
            return self._world
        raise PeerLost("this process trains alone, so no other world follows")

    def why_over(self, epoch: Epoch) -> str | None:
        return None

    def watch(self, epoch: Epoch, over: Callable[[str], None]) -> None:
        pass

    def unwatch(self) -> None:
        pass

    def broken(self, world: World, peer: int, reason: str) -> None:
        pass

    def at_boundary(self, world: World, step: int) -> None:
        pass

    def report(self, world: World, progress: Progress) -> None:
        pass

    def finish(self, world: World, progress: Progress) -> bool:
        return True

    def store(self, world: World) -> Store:
        return self._store


class _MemoryStore(Store):
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: bytes) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def get(self, keys: Sequence[str], deadline: float) -> list[bytes]:
        with self._changed:
            left = deadline - time.monotonic()
            if not self._changed.wait_for(lambda: all(key in self._values for key in keys), max(left, 0.0)):
                raise TimeoutError(f"not all of the keys {', '.join(keys)} were set in time")
            return [self._values[key] for key in keys]
