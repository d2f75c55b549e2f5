"""Tests that micro-batches have the same samples and random numbers in every world, with and without worker processes."""

import os
import random
import socket
import sys
import unittest
import warnings
from collections import UserDict, namedtuple
from unittest import mock

import torch
from ringmaster.batches import Batch, BatchSource
from ringmaster.errors import RingmasterError, UserError
from ringmaster.loading import SampleReader, Samples
from ringmaster.random_state import seed_for, torch_seeded
from ringmaster.sample_order import share
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

warnings.filterwarnings("ignore", "Failed to initialize NumPy")


class Augmented(Dataset):
    """A dataset whose samples use random numbers of torch and of `random`."""

    def __init__(self, length=13):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.tensor(index), torch.rand(1) + random.random()


class Broken(Augmented):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def __getitem__(self, index):
        if index == 5:
            raise self.error
        return super().__getitem__(index)


class Unpicklable(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


class Sockets(Augmented):
    """A dataset. Each sample is the number of sockets that the worker process has open."""

    def __getitem__(self, index):
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        return torch.tensor(sum(os.readlink(link).startswith("socket:") for link in links if os.path.islink(link)))


class Dying(Augmented):
    """A dataset whose first worker process ends without an error message."""

    def __init__(self):
        super().__init__()
        self.lives = torch.zeros(1, dtype=torch.int64).share_memory_()

    def __getitem__(self, index):
        self.lives += 1
        if self.lives == 1:
            os._exit(3)
        return super().__getitem__(index)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))


def source(dataset, **settings):
    return BatchSource(dataset, **{"global_batch": 8, "seed": 3, **settings})


def seen(batches):
    """Returns (sample, augmented value) of each sample, in order."""
    return [pair for batch in batches for pair in zip(batch.x.tolist(), batch.y.flatten().tolist())]


def run(dataset, steps, size, **settings):
    """Returns, for each step, the samples that all ranks of a world of `size` load."""
    by_rank = []
    for rank in range(size):
        ranks = source(dataset, **settings)
        by_rank.append([seen(ranks.load(step, *share(8, rank, size))) for step in range(1, steps + 1)])
        ranks.close()
    return [sum(parts, []) for parts in zip(*by_rank)]


class SameInEveryWorld(unittest.TestCase):
    def test_with_any_number_of_ranks_and_any_micro_batch(self):
        expected = run(Augmented(), 6, 1)

        for size in (2, 3, 5):
            for micro_batch in (None, 1, 2):
                self.assertEqual(run(Augmented(), 6, size, micro_batch=micro_batch), expected)

    def test_with_worker_processes(self):
        expected = run(Augmented(), 6, 1)

        self.assertEqual(run(Augmented(), 6, 2, micro_batch=3, num_workers=2), expected)
        self.assertEqual(run(Augmented(), 6, 1, num_workers=1), expected)

    def test_with_worker_processes_that_are_not_forked(self):
        loader = DataLoader(Augmented(), shuffle=True, num_workers=1, multiprocessing_context="spawn")

        self.assertEqual(run(loader, 2, 1), run(Augmented(), 2, 1))

    def test_after_the_share_has_changed_and_a_step_is_repeated(self):
        expected = run(Augmented(), 8, 1)
        for workers in (0, 2):
            rank = source(Augmented(), micro_batch=2, num_workers=workers)
            found = {step: seen(rank.load(step, 0, 8)) for step in (1, 2)}
            abandoned = rank.load(3, 0, 8)
            next(abandoned)
            for step in (3, 4, 4, 5):
                self.assertEqual(seen(rank.load(step, 2, 7)), expected[step - 1][2:7])
            for step in (5, 6, 7, 8, 2):
                self.assertEqual(seen(rank.load(step, 0, 8)), expected[step - 1])
            rank.close()
            self.assertEqual(seen(rank.load(8, 0, 8)), expected[7])
            rank.close()
            self.assertEqual([found[1], found[2]], expected[:2])

    def test_an_empty_share_has_no_batches(self):
        self.assertEqual(list(source(Augmented()).load(1, 4, 4)), [])

    def test_repeats_of_a_sample_in_one_step_are_augmented_anew(self):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            few = source(Augmented(2))

        self.assertEqual(len({value for _, value in seen(few.load(1, 0, 8))}), 8)
        self.assertEqual(["more than once" in str(warning.message) for warning in warned], [True])

    def test_a_collate_fn_draws_the_same_when_repeated(self):
        for workers in (0, 1):
            mixing = source(Augmented(), collate_fn=mixed, num_workers=workers)

            self.assertEqual(seen(mixing.load(2, 0, 4)), seen(mixing.load(2, 0, 4)))
            self.assertNotEqual(seen(mixing.load(2, 0, 4)), seen(mixing.load(3, 0, 4)))
            mixing.close()


def mixed(samples):
    x, y = default_collate(samples)
    return x, y + torch.rand(1)


class RandomState(unittest.TestCase):
    def test_of_the_user_is_left_as_it_was(self):
        for workers in (0, 1):
            for dataset in (Augmented(), TensorDataset(torch.arange(13), torch.arange(13))):
                torch.manual_seed(1)
                random.seed(1)
                expected = torch.rand(1), random.random()
                torch.manual_seed(1)
                random.seed(1)
                loading = source(dataset, num_workers=workers)
                batches = loading.load(1, 0, 8)
                next(batches)
                self.assertEqual((torch.rand(1), random.random()), expected)
                loading.close()

    def test_of_a_forward_pass_repeats_and_is_put_back(self):
        torch.manual_seed(1)
        expected = torch.rand(1)
        torch.manual_seed(1)

        with torch_seeded(seed_for(3, 7, 0), torch.device("cpu")):
            first = torch.rand(3)
        with torch_seeded(seed_for(3, 7, 0)):
            again = torch.rand(3)
        with torch_seeded(seed_for(3, 8, 0)):
            other = torch.rand(3)

        self.assertTrue(torch.equal(first, again))
        self.assertFalse(torch.equal(first, other))
        self.assertEqual(torch.rand(1), expected)

    def test_of_numpy_is_seeded_when_it_is_there(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no NumPy")

        class Drawing(Augmented):
            def __getitem__(self, index):
                return torch.tensor(index), torch.tensor([numpy.random.rand()])

        numpy.random.seed(1)
        expected = numpy.random.rand()
        numpy.random.seed(1)
        self.assertEqual(run(Drawing(), 3, 1), run(Drawing(), 3, 3, num_workers=1))
        self.assertEqual(numpy.random.rand(), expected)


class Batches(unittest.TestCase):
    def test_of_pairs(self):
        batch = Batch([torch.arange(3), torch.ones(3)], [4, 5, 6])

        x, y = batch
        self.assertEqual((x.tolist(), y.tolist(), len(batch)), ([0, 1, 2], [1, 1, 1], 3))
        self.assertIs(batch.x, x)
        self.assertIs(batch[1], y)

    def test_of_other_samples(self):
        batch = Batch({"a": torch.arange(2)}, [0, 1])

        self.assertEqual(batch["a"].tolist(), [0, 1])
        with self.assertRaisesRegex(UserError, "use .data"):
            batch.x

    def test_go_to_a_device_whatever_they_are_made_of(self):
        Pair = namedtuple("Pair", "a b")

        class Own:
            def to(self, device):
                return f"on {device}"

        data = UserDict(a=[torch.arange(2)], b=Pair(torch.ones(1), "text"), c=Own())

        moved = Batch(data, [0]).to("meta", non_blocking=True)

        self.assertIs(type(moved.data), UserDict)
        self.assertEqual((moved["a"][0].device.type, moved["b"].a.device.type), ("meta", "meta"))
        self.assertEqual(data["a"][0].device.type, "cpu")
        self.assertEqual((type(moved["b"]).__name__, moved["b"].b, moved["c"]), ("Pair", "text", "on meta"))

    def test_of_tensors_are_as_default_collate_has_them(self):
        plain = TensorDataset(torch.arange(20.0).reshape(10, 2), torch.arange(10))
        for dataset in (plain, Subset(plain, [3, 1, -1, 9, 5, 2, 6]), Subset(Subset(plain, range(1, 9)), [3, 1, 4])):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                batch = next(source(dataset).load(1, 0, 8))

            expected = default_collate([dataset[index] for index in batch.indices])
            self.assertEqual(type(batch.data), type(expected))
            for found, wanted in zip(batch, expected):
                self.assertTrue(torch.equal(found, wanted))

    def test_are_where_they_were_asked_to_be(self):
        self.assertEqual(next(source(Augmented(), device="meta").load(1, 0, 8)).x.device.type, "meta")


class Errors(unittest.TestCase):
    def error(self, dataset, workers, kind):
        loading = source(dataset, shuffle=False, num_workers=workers)
        with self.assertRaises(kind) as caught:
            list(loading.load(1, 0, 8))
        if not workers:
            return caught.exception
        self.assertEqual(len(seen(loading.load(2, 0, 2))), 2)  # goes on where that is wanted
        loading.close()
        return caught.exception

    def test_of_the_data_set_are_the_users_own_and_name_the_sample(self):
        for workers in (0, 2):
            if sys.version_info < (3, 11):
                error = self.error(Broken(KeyError("a label")), workers, RingmasterError)
                self.assertIsInstance(error.__cause__, KeyError)
                self.assertIn("sample 5 of the data set", str(error))
            else:
                error = self.error(Broken(KeyError("a label")), workers, KeyError)
                self.assertEqual(error.args, ("a label",))
                self.assertIn("sample 5 of the data set", error.__notes__[0])
                self.assertEqual("in __getitem__" in error.__notes__[0], bool(workers))

    def test_that_cannot_be_sent_from_a_worker_process_are_told(self):
        error = self.error(Broken(Unpicklable("no", "luck")), 1, RingmasterError)

        self.assertRegex(str(error), "(?s)sample 5 of the data set.*Unpicklable: no luck")

    def test_of_collation_name_samples(self):
        def collate(samples):
            raise ValueError("unequal")

        loading = source(Augmented(), collate_fn=collate, shuffle=False)
        with self.assertRaises(ValueError if sys.version_info >= (3, 11) else RingmasterError) as caught:
            next(loading.load(1, 0, 8))
        said = str(getattr(caught.exception, "__notes__", caught.exception))
        self.assertIn("samples 0, 1, 2, 3, … could not be collated", said)


class Refusals(unittest.TestCase):
    def refused(self, pattern, dataset, **settings):
        with self.assertRaisesRegex(UserError, pattern):
            source(dataset, **settings)

    def test_of_data_sets(self):
        self.refused(r"Stream is not a map-style.*job\.begin\(\)", Stream())
        self.refused(r"Stream is not a map-style", DataLoader(Stream()))
        self.refused("generator is not a map-style", (number for number in range(3)))
        self.refused("a list, has no samples", [])

    def test_of_numbers(self):
        self.refused("global_batch is 0", Augmented(), global_batch=0)
        self.refused("micro_batch is 1.5", Augmented(), micro_batch=1.5)
        with mock.patch.dict(os.environ, RINGMASTER_MAX_RANKS="9"):
            self.refused("global_batch is 8 and the job may grow to 9 ranks", Augmented())
        with mock.patch.dict(os.environ, RINGMASTER_MAX_RANKS="8"):
            source(Augmented())

    def test_of_loaders_with_an_order_of_their_own(self):
        data = Augmented()
        self.refused("WeightedRandomSampler", DataLoader(data, sampler=WeightedRandomSampler([1.0] * 13, 13)))
        self.refused("with replacement", DataLoader(data, sampler=RandomSampler(data, replacement=True)))
        self.refused("batch_size=None", DataLoader(data, batch_size=None))

        class Own(BatchSampler):
            pass

        self.refused("batch_sampler, a Own", DataLoader(data, batch_sampler=Own(RandomSampler(data), 2, False)))

    def test_of_a_length_that_changes(self):
        data = Augmented(13)
        loading = source(data)
        next(loading.load(1, 0, 8))
        data.length = 14

        with self.assertRaisesRegex(UserError, "had 13 samples when training began, and has 14 now"):
            next(loading.load(2, 0, 8))
        self.assertNotEqual(loading.fingerprint_text(), source(data).fingerprint_text())


class Loaders(unittest.TestCase):
    def test_give_their_data_set_and_whether_to_shuffle(self):
        loader = DataLoader(Augmented(), batch_size=8, shuffle=True, collate_fn=mixed)
        self.assertEqual(run(loader, 3, 1), run(Augmented(), 3, 1, collate_fn=mixed))
        self.assertEqual(next(source(DataLoader(Augmented())).load(1, 0, 8)).indices, list(range(8)))
        self.assertEqual(run(DataLoader(Augmented()), 3, 1, shuffle=True), run(Augmented(), 3, 1))

    def test_are_told_what_is_not_used(self):
        with self.assertWarnsRegex(UserWarning, "batch_size 5 is ignored"):
            source(DataLoader(Augmented(), batch_size=5))
        with self.assertWarnsRegex(UserWarning, "drop_last is ignored"):
            source(DataLoader(Augmented(), drop_last=True))


class WorkerProcesses(unittest.TestCase):
    def test_drop_what_is_no_longer_wanted_after_the_sample_in_hand(self):
        wanted = iter([True, True, True, False])
        reader = SampleReader(Broken(AssertionError("read on")), None, seed=3)

        batch = reader.read(Samples(0, [1, 2, 3, 5, 4]), lambda: next(wanted), in_worker=True)

        self.assertIsNone(batch)

    def test_that_died_are_told_and_started_again(self):
        loading = source(Dying(), num_workers=1)

        with self.assertRaisesRegex(RuntimeError, "worker .* exited unexpectedly"):
            next(loading.load(1, 0, 8))
        self.assertEqual(seen(loading.load(1, 0, 8)), run(Augmented(), 1, 1)[0])
        loading.close()

    def test_hold_no_connection_of_a_process_that_forked_them(self):
        ours, peers = socket.socketpair()
        loader = DataLoader(Sockets(), num_workers=1, multiprocessing_context="fork")
        loading = source(loader)

        self.assertEqual(next(loading.load(1, 0, 8)).data.max(), 0)

        ours.close()  # the peer notices it at once, though the worker process is alive
        peers.settimeout(20)
        self.assertEqual(peers.recv(1), b"")
        peers.close()
        loading.close()


if __name__ == "__main__":
    unittest.main()
