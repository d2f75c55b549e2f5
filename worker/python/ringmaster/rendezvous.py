"""A world's rendezvous store, through which torch's process groups exchange the addresses of the ranks."""

from __future__ import annotations

import itertools
import re
import time

import torch.distributed as dist

from .world import Store

_KEYS_AHEAD = 32  # keys of other ranks per request; the launcher has the answers to all ranks in memory at once


class TorchStore(dist.Store):
    """A world's rendezvous store with the interface that torch requires. Used by the connecting thread.

    Gloo requests the addresses of all ranks one after the other, under keys that end with the rank's number. The store
    fetches these keys together. `ranks` is the number of ranks that set such keys.
    """

    def __init__(self, store: Store, timeout: float, rank: int = 0, ranks: int = 0):
        super().__init__()
        self._store = store
        self._timeout = timeout
        self._rank = rank
        self._ranks = ranks
        self._of_all: dict[str, None] = {}  # keys that this rank and all other ranks set
        self._known: dict[str, bytes] = {}

    def set(self, key, value):
        self._store.set(key, value.encode() if isinstance(value, str) else bytes(value))
        number = re.search(r"\d+$", key)
        if number is not None and int(number[0]) == self._rank:
            self._of_all.update(dict.fromkeys(key[: number.start()] + str(rank) for rank in range(self._ranks)))

    def get(self, key):
        return self._fetch([key], self._timeout)[0]

    def wait(self, keys, timeout=None):
        self._fetch(keys, self._timeout if timeout is None else timeout.total_seconds())

    def multi_get(self, keys):
        return self._fetch(keys, self._timeout)

    def _fetch(self, keys, limit: float) -> list[bytes]:
        wanted = dict.fromkeys(key for key in keys if key not in self._known)
        if not self._of_all.keys().isdisjoint(wanted):
            ahead = (key for key in self._of_all if key not in self._known)
            wanted.update(dict.fromkeys(itertools.islice(ahead, _KEYS_AHEAD)))
        if wanted:
            self._known.update(zip(wanted, self._store.get(list(wanted), time.monotonic() + limit)))
        return [self._known[key] for key in keys]

    def multi_set(self, keys, values):
        for key, value in zip(keys, values):
            self.set(key, value)

    def has_extended_api(self):
        return True
