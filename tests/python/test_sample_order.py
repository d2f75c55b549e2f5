"""Tests which samples a rank takes: for any number of ranks, no sample is lost or taken twice."""

import os
import random
import subprocess
import sys
import unittest

from ringmaster.errors import UserError
from ringmaster.random_state import seed_for
from ringmaster.sample_order import SampleOrder, micro_batches, share


class Shares(unittest.TestCase):
    def test_cover_the_batch_once_and_differ_by_one_sample(self):
        numbers = random.Random(1)
        for _ in range(500):
            batch, size = numbers.randint(1, 5000), numbers.randint(1, 200)

            shares = [share(batch, rank, size) for rank in range(size)]

            taken = [sample for begin, end in shares for sample in range(begin, end)]
            self.assertEqual(taken, list(range(batch)))
            sizes = {end - begin for begin, end in shares}
            self.assertLessEqual(max(sizes) - min(sizes), 1)

    def test_are_those_of_the_trainer(self):  # worker/trainer/numeric/share.h
        self.assertEqual([share(10, rank, 4) for rank in range(4)], [(0, 2), (2, 5), (5, 7), (7, 10)])


class MicroBatches(unittest.TestCase):
    def test_cover_the_share_once_in_equal_parts_and_a_remainder(self):
        numbers = random.Random(2)
        for _ in range(500):
            begin = numbers.randint(0, 1000)
            end = begin + numbers.randint(0, 300)
            micro_batch = numbers.randint(1, 400)

            parts = micro_batches(begin, end, micro_batch)

            self.assertEqual([s for first, last in parts for s in range(first, last)], list(range(begin, end)))
            self.assertTrue(all(last - first == micro_batch for first, last in parts[:-1]))
            self.assertTrue(all(0 < last - first <= micro_batch for first, last in parts))

    def test_without_a_size_are_the_share(self):
        self.assertEqual(micro_batches(3, 9, None), [(3, 9)])
        self.assertEqual(micro_batches(3, 3, None), [])


class Order(unittest.TestCase):
    def test_an_epoch_has_each_sample_once_and_no_step_drops_any(self):
        for length, batch in ((10, 3), (7, 7), (5, 12), (1, 4), (64, 1)):
            order = SampleOrder(length, seed=3)
            steps = length * 3  # whole epochs

            stream = [index for step in range(1, steps + 1) for index in order.indices(step, 0, batch, batch)]

            for epoch in range(len(stream) // length):
                part = stream[epoch * length : (epoch + 1) * length]
                self.assertEqual(sorted(part), list(range(length)), (length, batch, epoch))

    def test_shares_are_parts_of_the_step_whenever_they_are_asked_for(self):
        order = SampleOrder(11, seed=4)
        whole = {step: order.indices(step, 0, 8, 8) for step in range(1, 20)}

        for step in (19, 1, 7, 8, 3, 12, 2, 19):
            for size in (1, 2, 3, 5):
                parts = [order.indices(step, *share(8, rank, size), 8) for rank in range(size)]
                self.assertEqual(sum(parts, []), whole[step])

    def test_depends_on_the_seed_and_the_epoch(self):
        first, second = SampleOrder(100, seed=1), SampleOrder(100, seed=2)

        self.assertNotEqual(first.indices(1, 0, 100, 100), second.indices(1, 0, 100, 100))
        self.assertNotEqual(first.indices(1, 0, 100, 100), first.indices(2, 0, 100, 100))

    def test_unshuffled_is_the_data_sets_own(self):
        order = SampleOrder(5, seed=1, shuffle=False)

        self.assertEqual(order.indices(2, 0, 4, 4), [4, 0, 1, 2])

    def test_leaves_the_users_random_numbers_alone(self):
        import torch

        torch.manual_seed(5)
        expected = torch.rand(1)
        torch.manual_seed(5)
        SampleOrder(100, seed=1).indices(1, 0, 10, 10)

        self.assertEqual(torch.rand(1), expected)

    def test_of_nothing_is_refused(self):
        with self.assertRaisesRegex(UserError, "no samples"):
            SampleOrder(0, seed=1)


class Seeds(unittest.TestCase):
    def test_are_the_same_in_every_process(self):
        program = "from ringmaster.random_state import seed_for; print(seed_for(7, 'sample', 12))"
        for hash_seed in ("1", "2"):
            other = subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": hash_seed},
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            )
            self.assertEqual(int(other.stdout), seed_for(7, "sample", 12))
        self.assertEqual(seed_for(7, "sample", 12), SEED)

    def test_differ_where_the_parts_do(self):
        parts = [(1, 23), (12, 3), ("1", 23), (1, "23"), (123,), (1, 2, 3), ("1 int 2 23",), ()]

        self.assertEqual(len({seed_for(*some) for some in parts}), len(parts))
        self.assertTrue(all(0 <= seed_for(*some) < 2**64 for some in parts))


SEED = 16159329521835493872  # a constant, so that the test detects a change in Python or this package

if __name__ == "__main__":
    unittest.main()
