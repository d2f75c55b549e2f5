"""Loads micro-batches of a map-style data set in this process, or ahead of time in worker processes.

Both ways return the same batches. The random generators are seeded with a sample's position in the run before the
sample is read from the data set, and with the position of a micro-batch's first sample before a user's `collate_fn` is
called.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import stat
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Subset, TensorDataset, default_collate

from .errors import RingmasterError
from .random_state import kept_random_state, seed_all, seed_for


class Request(NamedTuple):
    """A request for one micro-batch, sent to a loader."""

    step: int
    begin: int  # start of the rank's share of the step's batch
    end: int
    first: int  # start of the micro-batch within the share
    last: int


class Samples(NamedTuple):
    """The samples of a request, in the form that a data set accepts."""

    position: int  # position of the first sample in the run
    indices: list[int]


class Failure:
    """An error while loading samples. It can be pickled even if the exception cannot."""

    def __init__(self, doing: str, error: Exception, in_worker: bool):
        self.doing = doing
        self.error: Exception | None = error
        self.trace = "".join(traceback.format_exception(error)) if in_worker else None
        if in_worker:
            try:
                pickle.loads(pickle.dumps(error))
            except Exception:  # pickle cannot restore the exception's class
                self.error = None

    def raise_it(self):
        """Raises the exception with a note that names the operation, or a RingmasterError if notes are not
        supported."""
        message = self.doing + (f", in a worker process:\n{self.trace}" if self.trace else "")
        if self.error is None:
            raise RingmasterError(message)
        if not hasattr(self.error, "add_note"):  # before Python 3.11
            raise RingmasterError(f"{message}: {self.error!r}" if self.trace is None else message) from self.error
        self.error.add_note(f"ringmaster: {message}")
        raise self.error


class SampleReader:
    """Creates a batch from samples of the data set: seeds, reads and collates. Worker processes receive a copy."""

    def __init__(self, dataset, collate_fn: Callable | None, seed: int):
        self._dataset = dataset
        self._collate_fn = collate_fn
        self._seed = seed
        # Reading rows of tensors draws no random numbers, so all rows are read at once, which is 20 times as fast.
        self._rows = None if collate_fn else _rows_of(dataset)

    def read(self, samples: Samples, wanted: Callable[[], bool] | None = None, in_worker: bool = False) -> Any:
        """Returns the collated batch, a Failure, or, as soon as `wanted()` is False, None. Changes the random state."""
        if self._rows is not None:
            return self._rows(samples.indices)
        read = []
        for position, index in enumerate(samples.indices, samples.position):
            if wanted and not wanted():
                return None
            seed_all(seed_for(self._seed, "sample", position))
            try:
                read.append(self._dataset[index])
            except Exception as error:
                return Failure(f"sample {index} of the data set could not be loaded", error, in_worker)
        try:
            if self._collate_fn is None:
                return default_collate(read)
            seed_all(seed_for(self._seed, "collate", samples.position))
            return self._collate_fn(read)
        except Exception as error:
            some = ", ".join(map(str, samples.indices[:4])) + (", …" if len(read) > 4 else "")
            return Failure(f"the samples {some} could not be collated into a batch", error, in_worker)

    def read_here(self, samples: Samples) -> Any:
        """Like read(), but restores this process's random state."""
        if self._rows is not None:
            return self._rows(samples.indices)
        with kept_random_state():
            return self.read(samples)


def _rows_of(dataset):
    if type(dataset) is TensorDataset:
        return _Rows(dataset.tensors)
    if type(dataset) is Subset:
        rows = _rows_of(dataset.dataset)
        return rows and rows.of(dataset.indices)
    return None


class _Rows:
    """Selects rows of a TensorDataset's tensors, in the form in which default_collate combines samples."""

    def __init__(self, tensors, subset=None):
        self._tensors = tensors
        self._subset = subset

    def of(self, indices):
        indices = torch.as_tensor(indices, dtype=torch.int64)
        return _Rows(self._tensors, indices if self._subset is None else self._subset[indices])

    def __call__(self, indices):
        rows = torch.tensor(indices, dtype=torch.int64)
        if self._subset is not None:
            rows = self._subset[rows]
        return [tensor[rows.to(tensor.device)] for tensor in self._tensors]


class WorkerOptions(NamedTuple):
    """The options of worker processes, with the names that torch's DataLoader uses."""

    num_workers: int
    pin_memory: bool = False
    prefetch_factor: int | None = None
    worker_init_fn: Callable[[int], None] | None = None
    multiprocessing_context: Any = None
    timeout: float = 0


class WorkerLoader:
    """Worker processes that load the micro-batches of the expected next requests.

    The first request starts the processes, which torch's DataLoader runs. If an unexpected request is made, the
    processes drop their current requests, at the latest once they have read the current sample. For use by one thread;
    close() ends the processes.
    """

    def __init__(self, reader: SampleReader, samples_of: Callable[[Request], Samples], options: WorkerOptions):
        self._reader = reader
        self._samples_of = samples_of
        self._options = options
        self._generation = torch.zeros(1, dtype=torch.int64)  # number of the current requests; shared with the workers
        self._upcoming: Iterator[Request] = iter(())
        self._sent: deque[Request] = deque()  # requests of this generation, in the order of their results
        self._results = None

    def load(self, request: Request, follow: Callable[[Request], Iterator[Request]]) -> Any:
        """Returns the batch of `request`, or a Failure. `follow(request)` yields `request` and then the expected next
        requests."""
        if not self._sent or self._sent[0] != request:
            self._sent.clear()
            self._generation += 1
            self._upcoming = follow(request)
        if self._results is None:
            self._results = iter(self._start())
        try:
            generation = None
            while generation != self._generation.item():
                generation, batch = next(self._results)
        except BaseException:
            self.close()  # a worker died, or the wait was interrupted, so the next batch is unknown
            raise
        self._sent.popleft()
        return batch

    def close(self) -> None:
        self._results = None  # DataLoader's iterator ends its processes when it is destroyed
        self._sent.clear()

    def _start(self):
        self._generation.share_memory_()
        context = self._options.multiprocessing_context
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        return DataLoader(
            _WorkerSide(self._reader, self._generation),
            batch_size=None,
            sampler=_Requests(self._next),
            collate_fn=_as_it_is,
            num_workers=self._options.num_workers,
            pin_memory=self._options.pin_memory,
            prefetch_factor=self._options.prefetch_factor,
            worker_init_fn=_WorkerInit(context.get_start_method() == "fork", self._options.worker_init_fn),
            multiprocessing_context=context,
            timeout=self._options.timeout,
            generator=torch.Generator(),  # so that it does not draw from the user's generator
        )

    def _next(self):
        request = next(self._upcoming)
        self._sent.append(request)
        return self._generation.item(), self._samples_of(request)


class _Requests:
    """The DataLoader's sampler, whose items are requests. The DataLoader sends each item to the next worker."""

    def __init__(self, take):
        self._take = take

    def __iter__(self):
        return self

    def __next__(self):
        return self._take()


class _WorkerSide:
    """The DataLoader's data set in a worker process. Its indices are requests, and its items are their batches."""

    def __init__(self, reader, generation):
        self._reader = reader
        self._generation = generation

    def __getitem__(self, request):
        generation, samples = request

        def wanted():
            return self._generation.item() == generation

        return generation, self._reader.read(samples, wanted, in_worker=True) if wanted() else None


def _as_it_is(batch):
    return batch


class _WorkerInit:
    def __init__(self, forked, worker_init_fn):
        self._forked = forked
        self._worker_init_fn = worker_init_fn

    def __call__(self, worker):
        if self._forked:
            _let_go_of_sockets()
        if self._worker_init_fn:
            self._worker_init_fn(worker)


def _let_go_of_sockets():
    """Closes the sockets that a forked process inherits, because peers would not notice the parent's exit while the
    child lives. Redirects the descriptors to /dev/null, so that closing an inherited socket object later has no
    effect.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if number > 2 and stat.S_ISSOCK(os.fstat(number).st_mode):
                os.dup2(null, number, inheritable=False)
        except OSError:
            pass  # the descriptor that listed the folder
    os.close(null)
