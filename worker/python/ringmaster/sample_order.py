"""Selects the samples of a rank in a step, which depend only on the settings, the step, the rank and the world's size.

A run is an endless sequence of samples, with one permutation of the data set per epoch. A step takes the next
`global_batch` samples, and each rank computes a contiguous share of them. Therefore, worlds of all sizes train on the
same samples in the same steps, and a repeated step uses the same samples.
"""

from __future__ import annotations

from .errors import UserError


def share(global_batch: int, rank: int, size: int) -> tuple[int, int]:
    """Returns the start and the end of the share of `rank` in a batch among `size` ranks. Shares differ by at most one
    sample."""
    return rank * global_batch // size, (rank + 1) * global_batch // size


def micro_batches(begin: int, end: int, micro_batch: int | None) -> list[tuple[int, int]]:
    """Splits the share into ranges of `micro_batch` samples; the last may be smaller. None: one range."""
    if begin == end:
        return []
    size = end - begin if micro_batch is None else micro_batch
    return [(first, min(first + size, end)) for first in range(begin, end, size)]


class SampleOrder:
    """The order in which a run visits a data set of `length` samples. Not thread-safe.

    Keeps the permutations of two epochs, each with 8 bytes per sample, because a step may span the end of an epoch.
    """

    def __init__(self, length: int, seed: int, shuffle: bool = True):
        if length < 1:
            raise UserError("the data set has no samples")
        self.length = length
        self.seed = seed
        self.shuffle = shuffle
        self._permutations = {}  # permutation by epoch, counted from 0

    def indices(self, step: int, begin: int, end: int, global_batch: int) -> list[int]:
        """Returns the data set's indices of the samples `begin` to `end` in the batch of `step`. Steps start at 1."""
        position = (step - 1) * global_batch + begin
        last = (step - 1) * global_batch + end
        found = []
        while position < last:
            epoch, first = divmod(position, self.length)
            until = min(self.length, first + last - position)
            found += self._permutation(epoch)[first:until].tolist() if self.shuffle else range(first, until)
            position += until - first
        return found

    def _permutation(self, epoch):
        if epoch not in self._permutations:
            import torch  # imported here, because the rest of the module does not need it

            from .random_state import seed_for

            if len(self._permutations) == 2:
                del self._permutations[next(iter(self._permutations))]  # the older epoch
            generator = torch.Generator().manual_seed(seed_for(self.seed, "order", epoch))
            self._permutations[epoch] = torch.randperm(self.length, generator=generator)
        return self._permutations[epoch]
