"""Gradients as flat memory, reduced bucket by bucket while backward runs.

Each parameter's gradient is a piece of a bucket. Buckets follow the parameters from the last to the first, which is about
the order in which backward finishes them, and are reduced in that order on every rank: the first is small, so that
reducing begins early.
"""

from __future__ import annotations

from typing import Sequence

import torch

from .errors import WorldOver
from .transport import Communicator, Work

_FIRST_BYTES = 1 << 20
_BYTES = 25 << 20
_ALIGNMENT = 64  # elements: whatever reads or reduces a piece finds it aligned


class _Bucket:
    def __init__(self, parameters: list[torch.nn.Parameter]):
        self.parameters = parameters
        self.missing = 0  # gradients that are still to come in this step
        self.work: Work | None = None
        self._take_memory()

    def _take_memory(self) -> None:
        first = self.parameters[0]
        offsets, size = [], 0
        for parameter in self.parameters:
            offsets.append(size)
            size += -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
        self.flat = torch.zeros(size, dtype=first.dtype, device=first.device)
        self.pieces = [_piece(self.flat, offset, parameter) for offset, parameter in zip(offsets, self.parameters)]

    def zero(self) -> None:
        if self.work is not None and self.work.under_way():
            self._take_memory()  # an operation of a world that is over may still write to the old one
        else:
            self.flat.zero_()
        self.work = None
        self.missing = len(self.parameters)


def _piece(flat: torch.Tensor, offset: int, parameter: torch.nn.Parameter) -> torch.Tensor:
    dense = parameter.is_contiguous() or parameter.is_contiguous(memory_format=torch.channels_last)
    if parameter.dim() == 4 and dense:
        return flat.as_strided(parameter.shape, parameter.stride(), offset)
    return flat[offset:offset + parameter.numel()].view(parameter.shape)


class Buckets:
    """The gradients of `parameters`. Thread-safety: one thread, but for the hooks, which backward calls on its own."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]):
        self._buckets = [_Bucket(chosen) for chosen in _lay_out(list(reversed(parameters)))]
        self._communicator: Communicator | None = None  # while a backward pass is the step's last one
        self._next = 0
        self._used: set[torch.nn.Parameter] = set()
        self._broken: WorldOver | None = None
        for bucket in self._buckets:
            for place, parameter in enumerate(bucket.parameters):
                parameter.register_post_accumulate_grad_hook(self._hook(bucket, place, parameter))

    def _hook(self, bucket: _Bucket, place: int, parameter: torch.nn.Parameter):
        def ready(_) -> None:
            piece = bucket.pieces[place]
            if parameter.grad is not piece:  # somebody replaced it, as zero_grad() does
                piece.copy_(parameter.grad)
                parameter.grad = piece
            self._used.add(parameter)
            if self._communicator is None:
                return
            bucket.missing -= 1
            while self._next < len(self._buckets) and self._buckets[self._next].missing <= 0:
                self._launch()
        return ready

    def zero(self) -> None:
        """Before a step."""
        self._next = 0
        self._communicator = None
        self._broken = None
        self._used.clear()
        for bucket in self._buckets:
            bucket.zero()
            for parameter, piece in zip(bucket.parameters, bucket.pieces):
                parameter.grad = piece

    def arm(self, communicator: Communicator) -> None:
        """The backward pass that follows is the step's last: each bucket is reduced as soon as it is complete."""
        self._communicator = communicator

    def flush(self, communicator: Communicator) -> None:
        """Begins to reduce what is left. WorldOver: the world broke, here or in a hook."""
        self._communicator = communicator
        while self._next < len(self._buckets):
            self._launch()
        if self._broken is not None:
            raise self._broken

    def _launch(self) -> None:
        bucket = self._buckets[self._next]
        self._next += 1
        if self._broken is not None:
            return
        try:
            bucket.work = self._communicator.all_reduce(bucket.flat)
        except WorldOver as over:  # never raised through backward
            self._broken = over

    def wait(self) -> None:
        for bucket in self._buckets:
            bucket.work.wait()

    def scale(self, factor: float) -> bool:
        """Multiplies all sums. False: one of them is not a finite number."""
        total = 0.0
        for bucket in self._buckets:
            if factor != 1.0:
                bucket.flat.mul_(factor)
            total = total + bucket.flat.sum(dtype=torch.float32)
        return bool(torch.isfinite(total))

    def unused(self) -> list[int]:
        """By number, in the buckets' order: parameters that have had no gradient in this step, on this rank."""
        parameters = (parameter for bucket in self._buckets for parameter in bucket.parameters)
        return [number for number, parameter in enumerate(parameters) if parameter not in self._used]

    def drop(self, numbers: Sequence[int]) -> None:
        """Parameters without a gradient on any rank: the optimizer must not see zeros for them."""
        parameters = [parameter for bucket in self._buckets for parameter in bucket.parameters]
        for number in numbers:
            parameters[number].grad = None

    @property
    def count(self) -> int:
        """Of parameters."""
        return sum(len(bucket.parameters) for bucket in self._buckets)


def _lay_out(parameters: list[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
    chosen: list[list[torch.nn.Parameter]] = []
    size, limit = 0, 0
    for parameter in parameters:
        if not chosen or size >= limit or chosen[-1][0].dtype != parameter.dtype:
            limit = _BYTES if chosen else _FIRST_BYTES
            chosen.append([])
            size = 0
        chosen[-1].append(parameter)
        size += parameter.numel() * parameter.element_size()
    return chosen
