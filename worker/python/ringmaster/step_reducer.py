"""Reduces a step over the ranks: sums gradients, loss and votes, with the same result on all ranks."""

from __future__ import annotations

import functools
import math
import operator
import time
from dataclasses import dataclass

import torch

from .buckets import Buckets
from .errors import UserError
from .random_state import seed_for
from .state import TrainingState
from .sync import compare_texts
from .transport import Communicator
from .update import settings_of

_NUMBERS = 4  # of each rank in a step: sum of losses, sum of weights, flags, and the hash of what must be equal on all ranks
_PIECE = 1 << 20
_LEAVE, _CHECKPOINT, _UNUSED, _CHANGED, _FINISH, _MOVED = 1, 2, 4, 8, 16, 32  # flags


@dataclass(frozen=True)
class Votes:
    """The values that this rank contributes to a step."""

    leave: bool  # all ranks must leave the world after the step
    checkpoint: bool  # the step must be saved although no checkpoint is due
    data: str  # fingerprint of the data, which must be equal on all ranks


@dataclass(frozen=True)
class Reduced:
    """The result of a step on all ranks; the parameters' gradients are means over the global batch."""

    loss: float
    leave: bool
    checkpoint: bool
    waited: float  # seconds that this rank waited for other ranks


class StepReducer:
    """Reduces the gradients of the `named` parameters that require gradients. Not thread-safe.

    Between begin() and reduce(), `weight` and `loss` are this rank's sums of weights and of losses times weights.
    """

    def __init__(self, training: TrainingState, named: list[tuple[str, torch.nn.Parameter]], device: torch.device,
                 global_batch: int, scaled: bool):
        self._training = training
        self._named = named
        self._device = device
        self._global_batch = global_batch
        self._scaled = scaled  # whether losses are scaled; if so, the scaler handles gradients that overflow
        self._make_buckets()

    def begin(self, ranks: int) -> None:
        """Begins a step, which `ranks` ranks compute."""
        self._clear(ranks)
        self.buckets.attach()
        self._versions = [parameter._version for _, parameter in self._named]

    def begin_pass(self) -> None:
        """Begins a backward pass of the step. Raises UserError if the script has changed gradients in the step."""
        if self.passes > 0:
            self.buckets.check()
        elif len(self.buckets.unused()) < self.buckets.count:
            raise UserError("the script called backward() of a loss before job.backward(), whose gradients would be added "
                            "without the weight of the batch; add the losses and pass their sum to job.backward(), and compute "
                            "gradients of inputs with torch.autograd.grad()")
        else:
            self._follow_frozen()
        self.passes += 1

    def _clear(self, ranks: int) -> None:
        self._ranks = ranks
        self.buckets.zero(ranks)
        self.weight = 0.0
        self.loss: float | torch.Tensor = 0.0
        self.passes = 0  # number of calls of backward()

    def add(self, loss: torch.Tensor, weight: float) -> None:
        self.weight += weight
        on_cpu = self._device.type == "cpu"
        value = loss.item() if on_cpu else loss.detach().double().reshape(())  # without waiting for a GPU
        self.loss = self.loss + value * weight

    def close(self) -> None:
        self.buckets.close()

    def _follow_frozen(self) -> None:
        """Creates new buckets if the script has frozen or unfrozen parameters. Whether a parameter is frozen may depend
        only on the number of the step."""
        if [parameter.requires_grad for _, parameter in self._named] == self._trainable:
            return
        self.buckets.close()
        for _, parameter in self._named:
            parameter.grad = None
        self._make_buckets()
        self.buckets.zero(self._ranks)
        self.buckets.attach()

    def _make_buckets(self) -> None:
        self._trainable = [parameter.requires_grad for _, parameter in self._named]
        self.buckets = Buckets([(name, parameter) for name, parameter in self._named if parameter.requires_grad],
                               _NUMBERS)

    def reduce(self, communicator: Communicator, votes: Votes, number: int) -> Reduced:
        """Reduces step `number`. Raises WorldOver if the world ended, and UserError on all ranks if the step cannot be
        applied."""
        waiting = time.monotonic()
        unused = self.buckets.unused()
        changed = self._training.changed_buffers()
        self.buckets.attach()
        flags = _LEAVE * votes.leave | _CHECKPOINT * votes.checkpoint | _UNUSED * bool(unused) | _CHANGED * bool(changed)
        flags |= _MOVED * any(parameter._version != before for (_, parameter), before in zip(self._named, self._versions))
        equal = f"{votes.data}\n{settings_of(self._training.optimizer)}"
        statistics, numbers = self._sum(communicator, self._numbers(flags, equal), number)
        losses, weights_of, flags_of, words = zip(*numbers)
        weights, flags = math.fsum(weights_of), functools.reduce(operator.or_, map(int, flags_of))
        compare_texts(communicator, equal, words, ", and add schedulers to job.state")
        if flags & _UNUSED:
            self._drop_unused(communicator, unused)
        if flags & _CHANGED:
            self._share_buffers(communicator, changed)
        if flags & _MOVED:
            self._compare_parameters(communicator, number)
        waited = time.monotonic() - waiting
        culprits = [rank for rank, loss in enumerate(losses) if not math.isfinite(loss)]
        if culprits:
            raise UserError(f"step {number}: the loss of rank {culprits[0]} is NaN or infinite: training diverged; try "
                            "a smaller learning rate or check the data")
        if not weights > 0:
            raise UserError(f"step {number}: the weights of all ranks add up to {weights:g}; pass job.backward() "
                            "the number of samples or tokens of each micro-batch as its weight")
        if not self.buckets.scale(self._global_batch / weights) and not self._scaled:
            raise UserError(f"step {number}: a gradient is NaN or infinite: training diverged; try a smaller learning "
                            "rate or check the data")
        if statistics is not None:
            self._training.put_statistics(statistics, weights)
        for (_, parameter), trains in zip(self._named, self._trainable):
            if not trains:
                parameter.grad = None  # not reduced: it was unfrozen during the step and trains from the next one on
        return Reduced(math.fsum(losses) / weights, bool(flags & _LEAVE), bool(flags & _CHECKPOINT), waited)

    def agree(self, communicator: Communicator, number: int, *, finish: bool) -> None:
        """Waits until all ranks have applied the step before `number`. A rank that wants to `finish` takes part in step
        `number` with the same collectives, but without samples, or completes those of a step that it has discarded.
        Raises WorldOver if the world ended, and UserError on all ranks if some finish and others do not."""
        if not self.buckets.begun(communicator):
            self._clear(communicator.size)
        numbers = torch.tensor([0.0, 0.0, _FINISH * finish, 0.0], dtype=torch.float64, device=self._device)
        self._sum(communicator, numbers, number)

    def _sum(self, communicator: Communicator, numbers: torch.Tensor,
             number: int) -> tuple[torch.Tensor | None, list[list[float]]]:
        """Sums gradients and running averages over the ranks. Returns the averages, and the numbers of each rank."""
        self.buckets.flush(communicator, numbers)
        # Whatever the modes are: a layer in a model that is in evaluation mode may train. Averages of layers that do not
        # are equal on all ranks, and so remain what they are.
        statistics = self._training.statistics(self.weight, communicator.rank == 0)
        averaged = None if statistics is None else communicator.all_reduce(statistics)
        self.buckets.order()
        if averaged is not None:
            averaged.order()
        numbers_of = self.buckets.numbers()
        communicator.settle()
        finish = [bool(int(flags) & _FINISH) for _, _, flags, _ in numbers_of]
        if any(finish) and not all(finish):
            raise UserError(f"rank {finish.index(True)} ended training after step {number - 1}, but rank {finish.index(False)} "
                            f"began step {number}: all ranks must end after the same step; let only values that are equal "
                            "on all ranks, such as job.steps and job.loss, decide when a loop ends")
        return statistics, numbers_of

    def _numbers(self, flags: int, equal: str) -> torch.Tensor:
        on_host = isinstance(self.loss, float)
        word = float(seed_for(equal) % 2**52)  # a double represents it exactly
        numbers = torch.tensor([self.loss if on_host else 0.0, self.weight, flags, word], dtype=torch.float64,
                               device=self._device)
        if not on_host:
            numbers[0] = self.loss
        return numbers

    def _drop_unused(self, communicator: Communicator, unused: list[int]) -> None:
        counts = torch.zeros(self.buckets.count, device=self._device)
        counts[unused] = 1
        communicator.all_reduce(counts).wait()
        self.buckets.drop([number for number, count in enumerate(counts.tolist()) if count == communicator.size])

    def _compare_parameters(self, communicator: Communicator, number: int) -> None:
        """Raises UserError on all ranks if a parameter's sum of bits differs between ranks."""
        sums = torch.stack([_sum_of_bits(parameter).to(self._device) for _, parameter in self._named])
        rows = torch.stack(communicator.all_gather(sums)).tolist()
        for rank, row in enumerate(rows):
            for (name, _), ours, first in zip(self._named, row, rows[0]):
                if ours != first:
                    raise UserError(f"step {number}: parameter {name} has other values on rank {rank} than on rank 0, because "
                                    "the script changed it during the step; change parameters, also with other optimizers, "
                                    "in functions for job.after_step(), create embeddings without max_norm, and "
                                    "initialize from data before join()")

    def _share_buffers(self, communicator: Communicator, changed: list[int]) -> None:
        """Copies the buffers that forward passes have changed, except for running averages, from rank 0 to all ranks.
        A buffer whose shape differs between ranks, such as a cache for the longest sample, remains as it is."""
        buffers = self._training.other_buffers()
        words = [[number in changed, seed_for(str(buffer.dtype), *buffer.shape) >> 1] for number, buffer in enumerate(buffers)]
        rows = communicator.all_gather(torch.tensor(words, dtype=torch.int64, device=self._device))
        for buffer, stated in zip(buffers, torch.stack(rows, dim=1).tolist()):
            changes, shapes = zip(*stated)
            if any(changes) and len(set(shapes)) == 1:
                values = buffer.detach().to(self._device, copy=True, memory_format=torch.contiguous_format)
                communicator.broadcast(values, 0)
                buffer.copy_(values)


def _sum_of_bits(values: torch.Tensor) -> torch.Tensor:
    kind = getattr(torch, f"int{8 * values.element_size()}", torch.int64)
    pieces = values.detach().contiguous().reshape(-1).view(kind).split(_PIECE)  # a sum converts its input
    return torch.stack([piece.sum(dtype=torch.int64) for piece in pieces]).sum()
