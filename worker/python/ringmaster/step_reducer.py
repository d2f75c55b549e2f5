"""Reduces a step over the ranks: sums gradients, loss and votes, with the same result on all ranks."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch

from .buckets import Buckets
from .errors import UserError
from .state import TrainingState
from .sync import compare_texts
from .transport import Communicator

_VOTES = 6  # number of votes of a step, before those per rank


@dataclass(frozen=True)
class Votes:
    """The values that this rank contributes to a step."""

    leave: bool  # all ranks must leave the world after the step
    checkpoint: bool  # the step must be saved although no checkpoint is due
    data: str  # fingerprint of the data, which must be equal on all ranks
    data_word: float  # its hash, which a double represents exactly


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
        self._scaled = scaled  # whether losses are scaled: the scaler then handles gradients that overflow
        self._make_buckets()

    def begin(self) -> None:
        self.buckets.zero()
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

    def follow_frozen(self) -> None:
        """Adapts to parameters that the script has frozen or unfrozen. Freezing may depend only on the number of the
        step."""
        if [parameter.requires_grad for _, parameter in self._named] == self._trainable:
            return
        self.buckets.close()
        for _, parameter in self._named:
            parameter.grad = None
        self._make_buckets()
        self.buckets.zero()

    def _make_buckets(self) -> None:
        self._trainable = [parameter.requires_grad for _, parameter in self._named]
        self.buckets = Buckets([(name, parameter) for name, parameter in self._named if parameter.requires_grad])

    def reduce(self, communicator: Communicator, votes: Votes, number: int) -> Reduced:
        """Reduces step `number`. Raises WorldOver if the world ended, and UserError on all ranks if the step cannot be
        applied."""
        waiting = time.monotonic()
        rank, size = communicator.rank, communicator.size
        unused = self.buckets.unused()
        changed = self._training.changed_buffers()
        sums = self._votes(communicator, votes, len(unused), len(changed))
        self.buckets.flush(communicator)
        voted = communicator.all_reduce(sums)
        statistics = self._training.statistics(self.weight, rank == 0) if self._training.model.training else None
        averaged = None if statistics is None else communicator.all_reduce(statistics)
        self.buckets.wait()
        voted.wait()
        if averaged is not None:
            averaged.wait()
        total, weights, leave, checkpoint, missing, others, *of_ranks = sums.tolist()
        compare_texts(communicator, votes.data, of_ranks[size:])
        if missing:
            self._drop_unused(communicator, unused)
        if others:
            self._share_buffers(communicator, changed)
        waited = time.monotonic() - waiting
        culprits = [rank for rank, bad in enumerate(of_ranks[:size]) if bad]
        if culprits:
            raise UserError(f"step {number}: the loss of rank {culprits[0]} is NaN or infinite: training diverged; try "
                            "a smaller learning rate or check the data")
        if not weights > 0:
            raise UserError(f"step {number}: the sum of all weights is {weights:g}; weights must be positive")
        if not self.buckets.scale(self._global_batch / weights) and not self._scaled:
            raise UserError(f"step {number}: a gradient is NaN or infinite: training diverged; try a smaller learning "
                            "rate or check the data")
        if statistics is not None:
            self._training.put_statistics(statistics, weights)
        return Reduced(total / weights, leave > 0, checkpoint > 0, waited)

    def _votes(self, communicator: Communicator, votes: Votes, unused: int, changed: int) -> torch.Tensor:
        rank, size = communicator.rank, communicator.size
        of_ranks = [0.0] * (2 * size)
        of_ranks[size + rank] = votes.data_word
        on_host = isinstance(self.loss, float)
        if on_host:
            of_ranks[rank] = not math.isfinite(self.loss)
        sums = torch.tensor([self.loss if on_host else 0.0, self.weight, votes.leave, votes.checkpoint, unused, changed,
                             *of_ranks], dtype=torch.float64, device=self._device)
        if not on_host:
            sums[0] = self.loss
            sums[_VOTES + rank] = ~torch.isfinite(self.loss)
        return sums

    def _drop_unused(self, communicator: Communicator, unused: list[int]) -> None:
        counts = torch.zeros(self.buckets.count, device=self._device)
        counts[unused] = 1
        communicator.all_reduce(counts).wait()
        self.buckets.drop([number for number, count in enumerate(counts.tolist()) if count == communicator.size])

    def _share_buffers(self, communicator: Communicator, changed: list[int]) -> None:
        """Copies the buffers that forward passes have changed, except for running averages, from rank 0 to all
        ranks."""
        buffers = self._training.other_buffers()
        counts = torch.zeros(len(buffers), device=self._device)
        counts[changed] = 1
        communicator.all_reduce(counts).wait()
        for buffer, count in zip(buffers, counts.tolist()):
            if count > 0:
                values = buffer.detach().to(self._device, copy=True, memory_format=torch.contiguous_format)
                communicator.broadcast(values, 0)
                buffer.copy_(values)
