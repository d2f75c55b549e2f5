"""Creates a rank's micro-batches from the samples of a data set, for a training loop.

The samples of a batch, and the random numbers that a data set draws for each sample (from torch on the CPU, `random`
and NumPy's global generator), depend only on the seed and the step. They are the same in worlds of any size, with any
number of worker processes, and when a step is repeated. This does not apply to a data set that has a separate random
generator or keeps state between samples.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from .errors import UserError
from .loading import Failure, Request, SampleReader, Samples, WorkerLoader, WorkerOptions
from .sample_order import SampleOrder, micro_batches

_MAX_RANKS = "RINGMASTER_MAX_RANKS"  # common/control/pod_contract.h; absent: no limit


class Batch:
    """A collated micro-batch, `data`, and the `indices` of its samples in the data set.

    If the samples are pairs, `x` and `y` are the first and the second parts. A batch can be unpacked and indexed like
    its data, but its length is the number of samples.
    """

    def __init__(self, data: Any, indices: list[int]):
        self.data = data
        self.indices = indices

    @property
    def x(self) -> Any:
        return self._pair()[0]

    @property
    def y(self) -> Any:
        return self._pair()[1]

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator:
        return iter(self.data)

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """Returns the batch on `device`: moves its tensors, including those in lists, tuples and dictionaries, and
        other objects that have to()."""
        return Batch(_each(self.data, "to", device, non_blocking=non_blocking), self.indices)

    def pin_memory(self) -> Batch:
        """Returns the batch in page-locked memory, from which a GPU copies asynchronously."""
        return Batch(_each(self.data, "pin_memory"), self.indices)

    def _pair(self):
        if isinstance(self.data, (list, tuple)) and len(self.data) == 2:
            return self.data
        raise UserError("a batch has .x and .y only if its samples are pairs; use .data")


def _each(data, method, *arguments, **options):
    if isinstance(data, torch.Tensor):
        return getattr(data, method)(*arguments, **options)
    if isinstance(data, MutableMapping) and not hasattr(data, method):
        copied = copy.copy(data)  # keeps the type and its other attributes
        copied.update({key: _each(value, method, *arguments, **options) for key, value in data.items()})
        return copied
    if isinstance(data, (list, tuple)):
        values = [_each(value, method, *arguments, **options) for value in data]
        return type(data)(*values) if hasattr(data, "_fields") else type(data)(values)
    try:
        return getattr(data, method)(*arguments, **options) if hasattr(data, method) else data
    except TypeError:  # to() does not take non_blocking
        return getattr(data, method)(*arguments)


class BatchSource:
    """Loads the samples of a map-style data set for any share of any step's batch. For use by one thread; close() ends
    the worker processes.

    If `dataset` is a DataLoader, its data set, collate_fn, shuffling and worker process settings are used. Its batch
    size is ignored, because the size of the world determines the size of a batch.

    global_batch   number of samples in a step, over all ranks
    micro_batch    default number of samples in a batch that load() returns; None: a rank's whole share
    shuffle        whether each epoch has a new order (None: yes, or the DataLoader's setting)
    collate_fn     makes a batch from a list of samples; its random numbers depend on the share
    num_workers    number of processes that load ahead; 0: load() reads the samples itself (None: the DataLoader's, or 0)
    device         the device to which batches are moved; None: batches are not moved

    Raises UserError for data sets and settings that are not supported.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        global_batch: int,
        seed: int,
        micro_batch: int | None = None,
        shuffle: bool | None = None,
        collate_fn: Callable | None = None,
        num_workers: int | None = None,
        device: torch.device | str | None = None,
    ):
        _check_sizes(global_batch, micro_batch)
        options = WorkerOptions(0)
        if _is_loader(dataset):
            loader = dataset
            shuffles = _check_loader(loader, global_batch, micro_batch)
            shuffle = shuffles if shuffle is None else shuffle
            collate_fn = loader.collate_fn if collate_fn is None else collate_fn
            options = _worker_options(loader)
            dataset = loader.dataset
        self._length = _length_of(dataset)
        self._dataset = dataset
        self._global_batch = global_batch
        self._micro_batch = micro_batch
        self._device = None if device is None else torch.device(device)
        self._pins = self._device is not None and self._device.type == "cuda"
        self._order = SampleOrder(self._length, seed, shuffle is not False)
        self._reader = SampleReader(dataset, None if collate_fn is default_collate else collate_fn, seed)
        options = options._replace(
            num_workers=options.num_workers if num_workers is None else num_workers, pin_memory=self._pins
        )
        self._workers = WorkerLoader(self._reader, self._samples_of, options) if options.num_workers else None
        if global_batch > self._length:
            warnings.warn(
                f"global_batch is {global_batch} and the data set has {self._length} samples, so a step takes some of them "
                "more than once",
                stacklevel=2,
            )

    def load(self, step: int, begin: int, end: int, micro_batch: int | None = None) -> Iterator[Batch]:
        """Returns the micro-batches of samples `begin` to `end` in the batch of `step` (steps start at 1).
        `micro_batch` is the number of samples of each micro-batch from now on; None keeps the previous number.

        While the caller uses the micro-batches, worker processes load the same share of the following steps. An
        exception of the data set is raised unchanged, with a note that names the sample; before Python 3.11, it is the
        cause of a RingmasterError.
        """
        self._check_length()
        if micro_batch is not None:
            self._micro_batch = micro_batch
        for request in self._requests(step, begin, end):
            samples = self._samples_of(request)
            if self._workers:
                data = self._workers.load(request, self._requests_from)
            else:
                data = self._reader.read_here(samples)
            if isinstance(data, Failure):
                data.raise_it()
            batch = Batch(data, samples.indices)
            if self._pins and not self._workers:
                batch = batch.pin_memory()
            yield batch if self._device is None else batch.to(self._device, non_blocking=self._pins)

    def fingerprint_text(self) -> str:
        """Returns the settings that must be equal on all ranks and after restoring a checkpoint, as text for users."""
        order = self._order
        return (
            f"data set of {self._length} samples, global_batch {self._global_batch}, seed {order.seed},"
            f" {'shuffled' if order.shuffle else 'in its own order'}"
        )

    def close(self) -> None:
        """Stops the worker processes; load() restarts them."""
        if self._workers:
            self._workers.close()

    def _requests(self, step, begin, end):
        parts = micro_batches(begin, end, self._micro_batch)
        return [Request(step, begin, end, first, last) for first, last in parts]

    def _requests_from(self, request):
        step, begin, end, first, _ = request
        yield from (following for following in self._requests(step, begin, end) if following.first >= first)
        while True:
            step += 1
            yield from self._requests(step, begin, end)

    def _samples_of(self, request):
        position = (request.step - 1) * self._global_batch + request.first
        return Samples(position, self._order.indices(request.step, request.first, request.last, self._global_batch))

    def _check_length(self):
        length = len(self._dataset)
        if length != self._length:
            raise UserError(
                f"the data set had {self._length} samples when training began, and has {length} now; the number "
                "determines the samples of each step, so it must stay the same"
            )


def _check_sizes(global_batch, micro_batch):
    for name, value in (("global_batch", global_batch), ("micro_batch", micro_batch)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise UserError(f"{name} is {value!r}; it must be a whole number of samples, at least 1")
    ranks = int(os.environ.get(_MAX_RANKS) or 0)
    if global_batch < ranks:
        raise UserError(
            f"global_batch is {global_batch} and the job may grow to {ranks} ranks, each of which needs a sample; raise "
            "global_batch or lower spec.worker.maxReplicas"
        )


def _length_of(dataset):
    name = type(dataset).__name__
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise UserError(
            f"{name} is not a map-style data set (with len() and dataset[i]), so the samples of each step cannot "
            "be determined. Use a map-style data set, or write a custom loop with job.begin(), job.backward() and job.step()"
        )
    length = len(dataset)
    if length < 1:
        raise UserError(f"the data set, a {name}, has no samples")
    return length


def _is_loader(dataset):
    """Returns whether `dataset` is a DataLoader or has its attributes, such as torchdata's StatefulDataLoader."""
    attributes = ("dataset", "batch_sampler", "sampler", "collate_fn", "num_workers")
    return isinstance(dataset, DataLoader) or all(hasattr(dataset, name) for name in attributes)


def _worker_options(loader):
    return WorkerOptions(
        num_workers=loader.num_workers,
        prefetch_factor=getattr(loader, "prefetch_factor", None),
        worker_init_fn=getattr(loader, "worker_init_fn", None),
        multiprocessing_context=getattr(loader, "multiprocessing_context", None),
        timeout=getattr(loader, "timeout", 0),
    )


def _check_loader(loader, global_batch, micro_batch):
    """Returns whether the DataLoader shuffles. Raises UserError if its samplers or batch_size are not supported;
    warns about ignored settings."""
    _length_of(loader.dataset)  # rejects an IterableDataset, for which samplers have no effect
    instead = "pass the data set itself; each step's samples are distributed among the ranks of the current world"
    if loader.batch_sampler is None:
        raise UserError(f"a DataLoader with batch_size=None returns batches as samples: {instead}")
    if type(loader.batch_sampler) is not BatchSampler:
        name = type(loader.batch_sampler).__name__
        raise UserError(f"the DataLoader's batch_sampler, a {name}, is not supported: {instead}")
    sampler = loader.sampler
    random = type(sampler) is RandomSampler
    if not random and type(sampler) is not SequentialSampler:
        raise UserError(f"the DataLoader's sampler, a {type(sampler).__name__}, is not supported: {instead}")
    if random and (sampler.replacement or sampler.num_samples != len(loader.dataset)):
        raise UserError(f"the DataLoader's RandomSampler samples with replacement or uses only part of the data set: {instead}")
    if loader.batch_size not in (1, global_batch, micro_batch):
        warnings.warn(
            f"the DataLoader's batch_size {loader.batch_size} is ignored: a step of the job takes global_batch "
            f"{global_batch}, and micro_batch sets how many samples of a rank's share are computed at once",
            stacklevel=3,
        )
    if getattr(loader, "drop_last", False):
        warnings.warn("the DataLoader's drop_last is ignored: a step may span the end of an epoch", stacklevel=3)
    return random
