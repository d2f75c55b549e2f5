"""Gradients in flat memory, which are reduced bucket by bucket while backward runs.

Each parameter's gradient is a view of a bucket. Buckets contain the parameters from the last to the first, which is
about the order in which backward completes them. Every rank reduces the buckets in this order. The first bucket is
small, so that reduction starts early. The last bucket also contains numbers of each rank, which would otherwise need a
separate collective.
"""

from __future__ import annotations

import math
from typing import Sequence

import torch

from .errors import UserError, WorldOver
from .transport import Communicator, Work

_FIRST_BYTES = 1 << 20
_BYTES = 25 << 20
_ALIGNMENT = 64  # elements; gradients start at multiples of it, so that all pieces are aligned


class _Bucket:
    """Gradients, followed by `numbers` float64 numbers of each rank, stored as bytes in `numbers_of[rank]`.

    Each byte is one element of the bucket. The other ranks set it to 0, so its sum is exact in every floating-point
    type.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], numbers: int):
        self.parameters = parameters
        self._row = 8 * numbers
        self._ranks = 0  # no memory yet: zero() allocates it
        self.missing = 0  # gradients of this step that are not complete yet
        self.work: Work | None = None
        self.version = 0  # torch's version of `flat` after the last backward pass

    def _take_memory(self) -> None:
        first = self.parameters[0]
        offsets, size = [], 0
        for parameter in self.parameters:
            offsets.append(size)
            size += -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
        self.flat = torch.zeros(size + self._ranks * self._row, dtype=first.dtype, device=first.device)
        self.gradients = self.flat[:size]
        self.numbers_of = self.flat[size:].view(self._ranks, self._row)
        self.pieces = [_piece(self.flat, offset, parameter) for offset, parameter in zip(offsets, self.parameters)]

    def _free_memory(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
        self.work = self.flat = self.gradients = self.numbers_of = None
        self.pieces: list[torch.Tensor] = []

    def zero(self, ranks: int) -> None:
        resized = self._ranks == 0 or (ranks != self._ranks and self._row > 0)
        self._ranks = ranks
        # An operation of an earlier world may still write to the old memory, which it then keeps.
        if resized or (self.work is not None and self.work.under_way()):
            self._free_memory()
            self._take_memory()
        else:
            self.flat.zero_()
        self.work = None
        self.missing = len(self.parameters)
        self.version = self.flat._version


def _piece(flat: torch.Tensor, offset: int, parameter: torch.nn.Parameter) -> torch.Tensor:
    """Returns the gradient with the layout of the parameter, which fused optimizers require."""
    if _fills_its_memory(parameter):
        return flat.as_strided(parameter.shape, parameter.stride(), offset)
    return flat[offset:offset + parameter.numel()].view(parameter.shape)


def _fills_its_memory(tensor: torch.Tensor) -> bool:
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


class Buckets:
    """The gradients of `named`, a list of (name, parameter), and `numbers` float64 numbers of each rank. Thread-safety:
    one thread, except for the hooks, which backward calls on another thread. Raises UserError if the gradient of a
    parameter cannot be reduced, or if there are no parameters.
    """

    def __init__(self, named: Sequence[tuple[str, torch.nn.Parameter]], numbers: int):
        if not named:
            raise UserError("all parameters of the model are frozen; at least one must require a gradient")
        for name, parameter in named:
            if not parameter.is_floating_point():
                kind = str(parameter.dtype).removeprefix("torch.")
                raise UserError(f"parameter {name} is {kind}: only gradients of real floating-point numbers can be reduced")
        self._names = {parameter: name for name, parameter in named}
        parameters = list(self._names)
        *others, last = _lay_out(list(reversed(parameters)))
        self._buckets = [*(_Bucket(chosen, 0) for chosen in others), _Bucket(last, numbers)]
        self._communicator: Communicator | None = None  # set during the last backward pass of a step
        self._next = 0
        # Parameters by number, in the buckets' order.
        self._used: set[int] = set()
        self._ready: set[int] = set()  # complete in the last backward pass of the step
        self._broken: WorldOver | None = None
        places = [(bucket, place) for bucket in self._buckets for place in range(len(bucket.parameters))]
        self._hooks = [bucket.parameters[place].register_post_accumulate_grad_hook(self._hook(number, bucket, place))
                       for number, (bucket, place) in enumerate(places)]

    def close(self) -> None:
        """Detaches the parameters' gradients from the buckets."""
        for hook in self._hooks:
            hook.remove()

    def _hook(self, number: int, bucket: _Bucket, place: int):
        parameter = bucket.parameters[place]

        def ready(_) -> None:
            piece = bucket.pieces[place]
            if parameter.grad is not piece:  # the script removed it, like zero_grad(); its values stay
                if parameter.grad.is_sparse:
                    raise UserError(f"the gradient of parameter {self._names[parameter]} is sparse, which cannot be reduced; "
                                    "create the embedding without sparse=True")
                piece.add_(parameter.grad)
                parameter.grad = piece
            self._used.add(number)
            if self._communicator is None:
                return
            if number in self._ready:
                raise UserError(f"parameter {self._names[parameter]} received its gradient twice in one backward pass; "
                                "checkpoint activations with use_reentrant=False, and add losses instead of calling backward() "
                                "of each")
            self._ready.add(number)
            bucket.missing -= 1
            while self._next < len(self._buckets) - 1 and self._buckets[self._next].missing <= 0:
                self._launch()
        return ready

    def zero(self, ranks: int) -> None:
        """Clears the gradients for a new step, which `ranks` ranks compute."""
        self._next = 0
        self._communicator = None
        self._broken = None
        self._used.clear()
        self._ready.clear()
        for bucket in self._buckets:
            bucket.zero(ranks)

    def attach(self) -> None:
        """Makes the parameters' gradients views of the buckets."""
        for bucket in self._buckets:
            for parameter, piece in zip(bucket.parameters, bucket.pieces):
                parameter.grad = piece

    def seal(self) -> None:
        """Call after a backward pass. The script must not change the gradients afterwards; check() detects a change."""
        for bucket in self._buckets:
            bucket.version = bucket.flat._version

    def check(self) -> None:
        """Raises UserError if the script has changed gradients since seal()."""
        if any(bucket.version != bucket.flat._version for bucket in self._buckets):
            raise UserError("the script changed gradients between job.backward() and the step, as clip_grad_norm_(), "
                            "zero_grad() and backward() of another loss do; they then cover only part of the batch. Pass a "
                            "function that clips them to job.before_update(), and remove zero_grad()")

    def arm(self, communicator: Communicator) -> None:
        """Call before the step's last backward pass. That pass reduces each bucket but the last as soon as the bucket
        is complete."""
        self._communicator = communicator

    def begun(self, communicator: Communicator) -> bool:
        """Returns whether the ranks of this world may have reduced some buckets of the step, but not all."""
        return self._communicator is communicator and self._next < len(self._buckets)

    def flush(self, communicator: Communicator, numbers: torch.Tensor) -> None:
        """Starts reducing the remaining buckets, with the `numbers` of this rank. Raises WorldOver if the world broke
        during this call or in a hook."""
        self._communicator = communicator
        self._buckets[-1].numbers_of[communicator.rank].copy_(numbers.view(torch.uint8))
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
        except WorldOver as over:  # must not be raised through backward
            self._broken = over

    def order(self) -> None:
        """Waits for all buckets. On a GPU, only the current stream waits (Work.order())."""
        for bucket in self._buckets:
            bucket.work.order()

    def numbers(self) -> list[list[float]]:
        """Returns the numbers of each rank, by rank, after order()."""
        return self._buckets[-1].numbers_of.to(torch.uint8).view(torch.float64).tolist()

    def scale(self, factor: float) -> bool:
        """Multiplies all sums by `factor`. Returns False if any result is NaN or infinite."""
        total = 0.0
        for bucket in self._buckets:
            if factor != 1.0:
                bucket.gradients.mul_(factor)
            wide = torch.float64 if bucket.gradients.dtype == torch.float64 else torch.float32
            total = total + bucket.gradients.sum(dtype=wide)
        return math.isfinite(total)

    def unused(self) -> list[int]:
        """Returns the numbers, in the buckets' order, of the parameters without a gradient in this step on this
        rank."""
        return [number for number in range(self.count) if number not in self._used]

    def drop(self, numbers: Sequence[int]) -> None:
        """Removes the gradients of the parameters with these numbers. No rank has a gradient for them, so the optimizer
        must not update them with zeros."""
        parameters = [parameter for bucket in self._buckets for parameter in bucket.parameters]
        for number in numbers:
            parameters[number].grad = None

    @property
    def count(self) -> int:
        """Returns the number of parameters."""
        return len(self._names)


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
