"""Tests how the ranks of a world connect to each other, and that the end of a world closes only the connections of that world."""

import os
import tempfile
import threading
import time
import unittest
import weakref
from unittest import mock

import torch
from ringmaster import transport
from ringmaster.errors import WorldOver
from ringmaster.evaluation import Evaluation
from ringmaster.state import Extras, TrainingState
from ringmaster.step_reducer import StepReducer, Votes
from ringmaster.transport import Communicator, Work
from ringmaster.world import Epoch, Member, Store, World


class _CountingStore(Store):
    """The store that all ranks of a world share; counts the requests."""

    def __init__(self):
        self.questions = 0
        self._values = {}
        self._changed = threading.Condition()

    def set(self, key, value):
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def get(self, keys, deadline):
        with self._changed:
            self.questions += 1
            if not self._changed.wait_for(lambda: self._values.keys() >= set(keys), deadline - time.monotonic()):
                raise TimeoutError
            return [self._values[key] for key in keys]


def _together(communicators, store, train):
    """Connects the ranks of a world, each on its own thread, calls `train(communicator)`, and closes the world."""

    def run(communicator):
        communicator.connect(store)
        train(communicator)

    threads = [threading.Thread(target=run, args=(communicator,)) for communicator in communicators]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for communicator in communicators:  # now that no peer reduces any more
        communicator.close()


class Connect(unittest.TestCase):
    def test_each_rank_asks_once_for_the_addresses_of_all(self):
        ranks = 3
        members = tuple(Member(f"uid-{rank}", f"worker-{rank}", "", "127.0.0.1", 0, "start") for rank in range(ranks))
        store = _CountingStore()
        sums = [torch.ones(1) for _ in range(ranks)]
        worlds = [World(Epoch(1, 1), rank, members) for rank in range(ranks)]
        communicators = [Communicator(world, torch.device("cpu"), 30) for world in worlds]

        _together(communicators, store, lambda communicator: communicator.all_reduce(sums[communicator.rank]).wait())

        self.assertEqual([value.item() for value in sums], [ranks] * ranks)
        self.assertEqual(store.questions, ranks)


class Wait(unittest.TestCase):
    def test_ranks_wait_for_one_that_is_later_than_the_limit_of_connecting(self):
        members = _world_of_two().members
        communicators = [Communicator(World(Epoch(1, 1), rank, members), torch.device("cpu"), 2) for rank in range(2)]
        results = []

        def train(communicator):
            for collective in (
                lambda: communicator.all_reduce(torch.ones(1)).wait(),
                lambda: communicator.broadcast(torch.ones(1), 0),
                lambda: communicator.all_gather(torch.ones(1)),
            ):
                if communicator.rank == 0:
                    time.sleep(3)
                collective()
                results.append(communicator.rank)

        _together(communicators, _CountingStore(), train)

        self.assertEqual(sorted(results), [0, 0, 0, 1, 1, 1])

    def test_an_operation_that_completes_right_after_a_look_has_succeeded(self):
        communicator = Communicator(_world_of_two(), torch.device("cpu"), 5)
        work = _CompletesAfterALook(None)

        communicator.wait_for(work)

        self.assertEqual(work.waits, 2)

    def test_an_operation_that_fails_right_after_a_look_ends_the_world_with_its_error(self):
        communicator = Communicator(_world_of_two(), torch.device("cpu"), 5)

        with self.assertRaisesRegex(WorldOver, "Connection closed by peer"):
            communicator.wait_for(_CompletesAfterALook(RuntimeError("Connection closed by peer")))


    def test_an_operation_that_was_aborted_on_a_gpu_is_not_taken_for_a_result(self):
        communicator = Communicator(_world_of_two(), torch.device("cuda"), 5)
        stream = mock.Mock()
        stream.synchronize.side_effect = lambda: communicator.abort("the launcher abandoned this world")

        with mock.patch("torch.cuda.current_stream", return_value=stream):
            work = Work(communicator, (mock.Mock(),))
            work.order()
            with self.assertRaisesRegex(WorldOver, "abandoned"):
                work.wait()


class _CompletesAfterALook:
    """An operation of torch that ends after wait() has timed out, but before wait() raises."""

    def __init__(self, error):
        self.waits = 0
        self._error = error

    def is_completed(self):
        return self.waits > 0

    def wait(self, timeout):
        self.waits += 1
        if self.waits == 1:
            raise RuntimeError("Operation timed out!")
        if self._error is not None:
            raise self._error


def _world_of_two():
    members = tuple(Member(f"uid-{rank}", f"worker-{rank}", "", "127.0.0.1", 0, "start") for rank in range(2))
    return World(Epoch(1, 1), 0, members)


class _FakeNcclGroup:
    """A process group whose abort blocks until the test releases it."""

    def __init__(self):
        self.release = threading.Event()

    def abort(self):
        self.release.wait(60)


def _connected_over_nccl(world, group):
    communicator = Communicator(world, torch.device("cuda"), 5)
    communicator._group, communicator._own = group, {}
    return communicator


class Abort(unittest.TestCase):
    def test_a_number_that_is_another_file_s_by_now_is_left_alone(self):
        with tempfile.TemporaryFile() as file:
            with mock.patch("ringmaster.transport._sockets", return_value={file.fileno(): "socket:[1]"}):
                communicator = Communicator(_world_of_two(), torch.device("cpu"), 5)
                communicator._before = {}
                before = os.listdir("/proc/self/fd")

                communicator.abort("the world is over")

            self.assertEqual(os.listdir("/proc/self/fd"), before)
            file.write(b"still open")

    def test_the_exit_waits_until_a_group_over_nccl_is_aborted_and_freed(self):
        communicator = _connected_over_nccl(_world_of_two(), group := _FakeNcclGroup())
        release, freed = group.release, weakref.ref(group)
        del group

        communicator.close()
        threading.Timer(0.3, release.set).start()
        transport._await_freed()

        self.assertIsNone(freed())


class _RepeatsTheFirstSum:
    """The process group of a rank whose peer sums the first time, and then sends what is left in its buffers."""

    def __init__(self):
        self._first = None

    def allreduce(self, tensors, options):
        if tensors[0].dtype == torch.int64:
            self._first = 2 * tensors[0] if self._first is None else self._first
            tensors[0].copy_(self._first)
        return mock.Mock()


class Settle(unittest.TestCase):
    """As over NCCL, but on CPUs: the ranks confirm collectives if they have memory that says whether they gave up."""

    def test_no_rank_uses_a_result_if_one_rank_gave_up_during_the_collective(self):
        members = _world_of_two().members
        communicators = [Communicator(World(Epoch(1, 1), rank, members), torch.device("cpu"), 30) for rank in range(2)]
        results = []

        def train(communicator):
            communicator._gave_up = torch.zeros(1, dtype=torch.int64)
            for step in range(3):
                if (communicator.rank, step) == (1, 2):
                    communicator._gave_up.fill_(1)
                value = torch.ones(1)
                try:
                    communicator.all_reduce(value).wait()
                    results.append((step, value.item()))
                except WorldOver as over:
                    results.append((step, str(over)))

        _together(communicators, _CountingStore(), train)

        invalid = "another rank aborted an earlier operation, so the received data is invalid"
        self.assertEqual(sorted(results), [(0, 2.0)] * 2 + [(1, 2.0)] * 2 + [(2, invalid)] * 2)

    def test_what_is_left_of_an_earlier_confirmation_confirms_nothing(self):
        communicator = Communicator(_world_of_two(), torch.device("cpu"), 5)
        communicator._group = _RepeatsTheFirstSum()
        communicator._gave_up = torch.zeros(1, dtype=torch.int64)

        communicator.all_reduce(torch.ones(1)).wait()
        with self.assertRaisesRegex(WorldOver, "another rank aborted"):
            communicator.all_reduce(torch.ones(1)).wait()

    def test_the_device_is_told_before_collectives_are_aborted(self):
        told = []
        group = mock.Mock()
        communicator = _connected_over_nccl(_world_of_two(), group)
        communicator._gave_up = torch.zeros(1, dtype=torch.int64)
        group.abort = lambda: told.append(communicator._gave_up.item())

        communicator.abort("the launcher abandoned this world")
        transport._await_freed()

        self.assertEqual(told, [1])

    def test_a_step_and_the_end_are_settled(self):
        communicator = Communicator(_world_of_two(), torch.device("cpu"), 5)
        communicator._group = _RepeatsTheFirstSum()
        communicator._gave_up = torch.ones(1, dtype=torch.int64)
        model = torch.nn.Linear(1, 1)
        training = TrainingState(model, torch.optim.SGD(model.parameters(), 0.1), Extras({}))
        reducer = StepReducer(training, list(model.named_parameters()), torch.device("cpu"), 4, scaled=False)
        reducer.begin(2)
        reducer.add(torch.ones(1), 4)

        with self.assertRaisesRegex(WorldOver, "another rank aborted"):
            reducer.reduce(communicator, Votes(False, False, "data"), 1)
        with self.assertRaisesRegex(WorldOver, "another rank aborted"):
            reducer.agree(communicator, 1, finish=True)

    def test_an_evaluation_is_settled(self):
        communicator = Communicator(_world_of_two(), torch.device("cpu"), 5)
        communicator._group = _RepeatsTheFirstSum()
        communicator._gave_up = torch.zeros(1, dtype=torch.int64)
        evaluation = Evaluation(lambda model, rank, ranks: (1.0, 2.0), 1, "accuracy")

        self.assertEqual(evaluation.run_if_due(torch.nn.Linear(1, 1), communicator, 1, last=False), {"accuracy": 0.5})
        with self.assertRaisesRegex(WorldOver, "another rank aborted"):
            evaluation.run_if_due(torch.nn.Linear(1, 1), communicator, 2, last=False)


if __name__ == "__main__":
    unittest.main()
