"""Tests that the last bucket carries the numbers of each rank exactly, whatever the gradients' type is."""

import math
import unittest

import torch
from ringmaster.buckets import Buckets
from ringmaster.errors import UserError

_NUMBERS = [[1 / 3, 1e300, 15.0, 2.0**52 - 1], [float("nan"), -0.0, 0.0, 5e-324]]


class _Rank:
    """The communicator of one of two ranks. It collects the tensors that the rank reduces."""

    size = 2

    def __init__(self, rank):
        self.rank = rank
        self.reduced = []

    def all_reduce(self, tensor):
        self.reduced.append(tensor)
        return self

    def order(self):
        pass


def _buckets(dtype):
    return Buckets([("weight", torch.nn.Parameter(torch.ones(3, dtype=dtype)))], len(_NUMBERS[0]))


class Numbers(unittest.TestCase):
    def test_the_numbers_of_both_ranks_arrive_bit_by_bit(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            with self.subTest(dtype=dtype):
                ranks, buckets = [_Rank(0), _Rank(1)], [_buckets(dtype), _buckets(dtype)]
                for rank, mine, numbers in zip(ranks, buckets, _NUMBERS):
                    mine.zero(len(ranks))
                    mine.flush(rank, torch.tensor(numbers, dtype=torch.float64))
                total = ranks[0].reduced[0] + ranks[1].reduced[0]
                for rank in ranks:
                    rank.reduced[0].copy_(total)

                for mine in buckets:
                    mine.order()
                    self.assertEqual(list(map(_bits, mine.numbers())), list(map(_bits, _NUMBERS)))

    def test_they_are_neither_scaled_nor_part_of_the_check_for_infinite_gradients(self):
        rank, buckets = _Rank(0), _buckets(torch.float32)
        buckets.zero(2)
        buckets.flush(rank, torch.tensor([math.inf] * 4, dtype=torch.float64))

        self.assertTrue(buckets.scale(0.5))
        self.assertEqual(buckets.numbers()[0], [math.inf] * 4)

    def test_the_number_of_ranks_may_change_between_steps(self):
        rank, buckets = _Rank(0), _buckets(torch.float32)
        for ranks in (1, 3, 2):
            buckets.zero(ranks)
            buckets.flush(rank, torch.ones(4, dtype=torch.float64))
            self.assertEqual(buckets.numbers(), [[1.0] * 4] + [[0.0] * 4] * (ranks - 1))

    def test_a_model_of_frozen_parameters_is_rejected(self):
        with self.assertRaisesRegex(UserError, "frozen"):
            Buckets([], 4)


def _bits(numbers):
    return torch.tensor(numbers, dtype=torch.float64).view(torch.int64).tolist()


if __name__ == "__main__":
    unittest.main()
