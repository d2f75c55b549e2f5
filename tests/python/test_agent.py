"""Tests AgentMembership with a fake agent that sends the test's messages."""

import contextlib
import gc
import json
import logging
import os
import signal
import threading
import time
import unittest
from unittest import mock

from fake_agent import LIMIT, Call, FakeAgent
from ringmaster import world as worlds
from ringmaster.agent import AgentMembership, join_membership
from ringmaster.alone import LoneMembership
from ringmaster.connection import AgentConnection
from ringmaster.errors import PeerLost, RingmasterError, Unavailable, UserError, WorldOver
from ringmaster.messages import MAX_LINE_BYTES, StoreSet
from ringmaster.world import Epoch, KeptCheckpoint, Progress, World

EPOCH, NEXT = Epoch(2, 7), Epoch(2, 8)
HOSTS = [
    {"podUid": "a", "pod": "w-0", "node": "n1", "address": "10.0.0.1", "slots": [1], "start": "s"},
    {"podUid": "b", "pod": "w-1", "node": "n2", "address": "10.0.0.2", "slots": [0], "start": "t"},
]
for host in HOSTS:
    host["starts"] = [""]


def wire(epoch):
    return {"term": epoch.term, "number": epoch.number}


class SteppedClock:
    now = 0.0

    def __call__(self):
        return self.now


class Watch:
    """The callback of a watch. Records the arguments of all calls."""

    def __init__(self, membership, epoch):
        self.reasons = []
        self._called = threading.Event()
        membership.watch(epoch, self)

    def __call__(self, reason):
        self.reasons.append(reason)
        self._called.set()

    def wait(self):
        assert self._called.wait(LIMIT), "the watch was not called"
        return self.reasons[0]


class AgentTest(unittest.TestCase):
    def setUp(self):
        self.clock = SteppedClock()
        self.agent = FakeAgent()
        self.addCleanup(self.agent.close)
        self.membership = AgentMembership(self.agent.path, 1, self.clock)
        self.addCleanup(self.membership.close)
        self.agent.accept()

    def send_world(self, epoch, rank=0, hosts=HOSTS, order=(0, 1, 1, 1)):
        members = {"hosts": list(hosts), "order": list(order)}
        self.agent.send(type="RankEpoch", epoch=wire(epoch), rank=rank, members=members)

    def send_leave(self, below):
        self.agent.send(type="RankLeave", below=wire(below))

    def enter(self):
        """Puts the rank into a world of two ranks on two nodes, as rank 0."""
        self.send_world(EPOCH)
        world = self.membership.await_world(Epoch())
        self.receive("RankHello")
        return world

    def receive(self, type_name):
        message = self.agent.receive()
        self.assertIsNotNone(message, f"hung up before a {type_name}")
        self.assertEqual(message["type"], type_name)
        return message

    @contextlib.contextmanager
    def reader_has_read(self):
        """Waits at the end of the block until the rank has processed all messages sent in the block. For this, sends one more
        message, which ends the world, and waits until the world has ended."""
        watch = Watch(self.membership, EPOCH)
        yield
        self.send_leave(NEXT)
        watch.wait()


class Worlds(AgentTest):
    def test_greets_and_enters_the_world_it_is_told(self):
        self.send_world(EPOCH)
        world = self.membership.await_world(Epoch())

        self.assertEqual((world.epoch, world.rank, world.size), (EPOCH, 0, 2))
        self.assertEqual((world.address, world.me.name), ("10.0.0.1", "w-0/1/s"))
        self.assertEqual((world.local_rank, world.ranks_on_host, world.workers), (0, 1, 2))
        hello = self.receive("RankHello")
        self.assertEqual((hello["slot"], hello["pid"]), (1, os.getpid()))

    def test_greets_once(self):
        world = self.enter()
        self.send_world(NEXT)
        self.assertEqual(self.membership.await_world(EPOCH).epoch, NEXT)
        self.membership.at_boundary(world, 3)
        self.receive("RankAtBoundary")

    def test_ranks_of_a_worker_are_counted_in_their_order(self):
        second = {**HOSTS[1], "slots": [0, 1, 2], "starts": ["", "", ""]}
        first = {**HOSTS[0], "slots": [1, 0], "starts": ["", ""]}
        self.send_world(EPOCH, rank=3, hosts=[first, second], order=[0, 1, 1, 3, 0, 1])
        world = self.membership.await_world(Epoch())
        self.assertEqual((world.local_rank, world.ranks_on_host, world.workers), (2, 3, 2))

    def test_workers_of_one_node_are_on_one_host(self):
        for node, ranks in (("n1", 2), ("", 1)):
            members = tuple(worlds.Member(pod, pod, node, "10.0.0.1", 0, "") for pod in ("a", "b"))
            world = World(EPOCH, 1, members)
            self.assertEqual((world.local_rank, world.ranks_on_host, world.workers), (0, ranks, 2))

    def test_ignores_a_world_that_does_not_hold_together(self):
        self.enter()
        last = Epoch(2, 9)
        with self.assertLogs("ringmaster", "WARNING") as logged:
            self.send_world(NEXT, rank=2)
            self.send_world(NEXT, rank=-1)
            self.send_world(last)
            self.assertEqual(self.membership.await_world(EPOCH).epoch, last)
        self.assertEqual(len(logged.records), 2)

    def test_does_not_enter_a_world_that_was_given_up_meanwhile(self):
        self.enter()
        last = Epoch(3, 1)
        watch = Watch(self.membership, NEXT)
        self.send_world(NEXT)
        self.send_leave(last)
        self.send_leave(NEXT)
        self.send_world(EPOCH)
        watch.wait()
        self.send_world(last)
        self.assertEqual(self.membership.await_world(EPOCH).epoch, last)
        self.assertIn("abandoned this world", self.membership.why_over(Epoch(2, 9)))

    def test_what_is_not_known_is_passed_over(self):
        self.agent.send(type="FromTheFuture")
        self.agent.send_bytes(b'{"type":"AgentHello"}\n')
        self.enter()

    def test_lines_in_pieces_and_several_at_once(self):
        self.send_world(EPOCH)
        epoch = {"type": "RankSwitch", "epoch": wire(EPOCH), "leaving": True}
        text = json.dumps(epoch).encode() + b"\n"
        self.agent.send_bytes(text[:10])
        self.assertEqual(self.membership.await_world(Epoch()).epoch, EPOCH)
        with self.reader_has_read():
            self.agent.send_bytes(text[10:] + text[:20])
            self.agent.send_bytes(text[20:])
        self.assertTrue(self.membership.leaving(EPOCH))


class Watches(AgentTest):
    def test_a_leave_calls_the_watch_and_wakes_the_store(self):
        world = self.enter()
        watch = Watch(self.membership, EPOCH)
        store = self.membership.store(world)
        values = Call(store.get, ["key"], time.monotonic() + LIMIT)
        asked = self.receive("StoreGet")
        self.send_leave(EPOCH)  # not below this one
        self.agent.send(type="StoreValues", epoch=wire(EPOCH), id=asked["id"], rank=0, values=[""])
        self.assertEqual(values.result(), [b""])
        self.assertIsNone(self.membership.why_over(EPOCH))
        values = Call(store.get, ["never"], time.monotonic() + LIMIT)
        self.receive("StoreGet")
        self.send_leave(NEXT)

        self.assertIn("abandoned this world", watch.wait())
        with self.assertRaisesRegex(WorldOver, "abandoned this world") as over:
            values.result()
        self.assertTrue(over.exception.told)
        self.assertIn("abandoned this world", self.membership.why_over(EPOCH))

    def test_a_watch_of_a_world_that_is_over_is_called_at_once_and_an_unwatched_one_never(self):
        self.enter()
        unwatched = Watch(self.membership, EPOCH)
        self.membership.unwatch()
        self.send_world(NEXT, rank=1)
        self.assertEqual(self.membership.await_world(EPOCH).rank, 1)
        watch = Watch(self.membership, EPOCH)
        self.assertEqual(watch.reasons, ["a newer world has started"])
        self.assertEqual(unwatched.reasons, [])

    def test_unwatch_waits_for_a_callback_that_runs(self):
        self.enter()
        running, go_on = threading.Event(), threading.Event()
        ended = []

        def over(reason):
            running.set()
            go_on.wait(LIMIT)
            ended.append(reason)

        self.membership.watch(EPOCH, over)
        self.send_leave(NEXT)
        self.assertTrue(running.wait(LIMIT))
        unwatched = Call(lambda: (self.membership.unwatch(), list(ended))[1])
        go_on.set()
        self.assertEqual(len(unwatched.result()), 1)

    def test_a_callback_that_raises_does_not_end_the_reader(self):
        self.enter()

        called = threading.Event()

        def over(reason):
            called.set()
            raise ValueError("of the callback")

        with self.assertLogs("ringmaster", "ERROR"):
            self.membership.watch(EPOCH, over)
            self.send_world(NEXT)
            self.assertTrue(called.wait(LIMIT))
            self.send_world(Epoch(2, 9))
            Watch(self.membership, NEXT).wait()
        self.assertEqual(self.membership.await_world(NEXT).epoch, Epoch(2, 9))


class Reports(AgentTest):
    def test_progress_at_most_twice_a_second_and_once_for_each_world_at_once(self):
        world = self.enter()
        for epoch, step, seconds in (
            (EPOCH, 1, 0), (EPOCH, 2, 0.125), (EPOCH, 3, 0.25), (EPOCH, 4, 0.125),
            (NEXT, 5, 0.125), (NEXT, 6, 0.125), (NEXT, 7, 0.375),
        ):  # fmt: skip
            self.clock.now += seconds
            self.membership.report(World(epoch, 0, world.members), Progress(step))
        for step in (1, 4, 5, 7):
            said = self.receive("RankProgress")
            self.assertEqual(said["progress"]["step"], step)
            self.assertEqual(said["epoch"], wire(EPOCH if step < 5 else NEXT))

    def test_a_broken_world_the_boundary_and_what_it_begins_with(self):
        world = self.enter()
        self.assertFalse(self.membership.switch_wanted(EPOCH))
        self.membership.broken(world, 1, "rank 1 went away")
        self.membership.at_boundary(world, 12)
        self.membership.began(world, 40, "resumed", KeptCheckpoint(40, 4096))
        self.membership.unprotected("snapshot", "no memory")
        with self.reader_has_read():
            self.agent.send(type="RankSwitch", epoch=wire(EPOCH))

        broken = self.receive("RankBroken")
        self.assertEqual((broken["epoch"], broken["peer"]), (wire(EPOCH), 1))
        self.assertEqual(broken["reason"], "rank 1 went away")
        self.assertEqual(self.receive("RankAtBoundary")["step"], 12)
        self.assertEqual(self.receive("RankBegan")["kept"]["bytes"], 4096)
        self.assertEqual(self.receive("RankProtection")["fault"], "no memory")
        self.assertTrue(self.membership.switch_wanted(EPOCH))
        self.assertFalse(self.membership.leaving(EPOCH))
        self.assertFalse(self.membership.switch_wanted(NEXT))

    def test_the_newest_wish_to_switch_says_whether_the_rank_leaves(self):
        self.enter()
        with self.reader_has_read():
            self.agent.send(type="RankSwitch", epoch=wire(NEXT), leaving=True)
            self.agent.send(type="RankSwitch", epoch=wire(EPOCH), leaving=False)
        self.assertTrue(self.membership.leaving(NEXT))
        self.assertFalse(self.membership.leaving(EPOCH))


class Finishing(AgentTest):
    def finish(self, world, step=9):
        call = Call(self.membership.finish, world, Progress(step))
        if world.rank == 0:
            self.assertEqual(self.receive("RankProgress")["progress"]["step"], step)
        done = self.receive("RankDone")
        self.assertEqual((done["epoch"], done["rank"]), (wire(EPOCH), world.rank))
        return call, done

    def test_waits_for_the_release_of_its_own_epoch(self):
        call, done = self.finish(self.enter())
        self.agent.send(type="Release", epoch={"term": 2, "number": 6})
        self.agent.send(type="Release", epoch=wire(EPOCH))
        self.assertTrue(call.result())
        self.assertTrue(done["trained"])

    def test_says_that_nothing_was_trained(self):
        world = self.enter()
        self.membership.nothing_trained()
        call, done = self.finish(World(EPOCH, 1, world.members))
        self.agent.send(type="Release", epoch=wire(EPOCH))
        self.assertTrue(call.result())
        self.assertFalse(done["trained"])

    def test_says_that_it_is_at_the_boundary_and_ends_when_the_world_does(self):
        call, _ = self.finish(self.enter())
        self.agent.send(type="RankSwitch", epoch=wire(EPOCH))
        boundary = self.receive("RankAtBoundary")
        self.assertEqual((boundary["epoch"], boundary["step"]), (wire(EPOCH), 9))
        self.send_leave(NEXT)
        self.assertFalse(call.result())

    def test_may_be_released_at_the_boundary(self):
        call, _ = self.finish(self.enter())
        self.agent.send(type="RankSwitch", epoch=wire(EPOCH))
        self.receive("RankAtBoundary")
        self.agent.send(type="Release", epoch=wire(EPOCH))
        self.assertTrue(call.result())


class Checkpoints(AgentTest):
    def await_grant(self, stop):
        return Call(self.membership.await_grant, 500, 0, 64, "ff", stop)

    def grant(self, epoch, step, rank=0):
        self.agent.send(type="CheckpointGrant", epoch=wire(epoch), rank=rank, step=step, shard=0)

    def test_one_of_this_world_is_wanted_once(self):
        self.enter()
        self.assertFalse(self.membership.checkpoint_wanted(EPOCH))
        with self.reader_has_read():
            self.agent.send(type="TakeCheckpoint", epoch=wire(EPOCH))
        self.assertTrue(self.membership.checkpoint_wanted(EPOCH))
        self.assertFalse(self.membership.checkpoint_wanted(EPOCH))

    def test_asks_for_the_grant_in_each_world_until_it_comes(self):
        self.enter()
        call = self.await_grant(threading.Event())
        first = self.receive("CheckpointWritten")
        self.grant(EPOCH, step=400)
        self.send_leave(NEXT)
        self.send_world(NEXT, rank=1)
        second = self.receive("CheckpointWritten")
        self.grant(NEXT, step=500, rank=1)
        call.result()

        self.assertEqual((first["epoch"], first["bytes"]), (wire(EPOCH), 64))
        self.assertEqual((second["epoch"], second["rank"]), (wire(NEXT), 1))
        self.send_world(Epoch(2, 9))
        self.membership.checkpoint_complete(500, 4096)
        done = self.receive("CheckpointDone")
        self.assertEqual((done["epoch"], done["rank"], done["bytes"]), (wire(NEXT), 1, 4096))

    def test_a_grant_that_never_comes_ends_when_the_writer_stops(self):
        self.enter()
        stop = threading.Event()
        call = self.await_grant(stop)
        self.receive("CheckpointWritten")
        stop.set()
        with self.assertRaises(Unavailable):
            call.result()


class Stores(AgentTest):
    def get(self, world, keys, seconds=LIMIT):
        return Call(self.membership.store(world).get, keys, time.monotonic() + seconds)

    def test_are_relayed(self):
        world = self.enter()
        self.membership.store(world).set("mine", b"\0\n")
        said = self.receive("StoreSet")
        self.assertEqual((said["epoch"], said["key"], said["value"]), (wire(EPOCH), "mine", "AAo="))
        call = self.get(world, ("mine", "theirs"))
        asked = self.receive("StoreGet")
        self.assertEqual((asked["rank"], asked["keys"]), (0, ["mine", "theirs"]))
        answer = {"type": "StoreValues", "epoch": wire(EPOCH), "rank": 0}
        self.agent.send(**answer, id=asked["id"] + 100, values=["bm90IG91cnM="])
        self.agent.send(**answer, id=asked["id"], values=["AAo=", ""])
        self.assertEqual(call.result(), [b"\0\n", b""])

    def test_end_at_their_deadline(self):
        with self.assertRaisesRegex(TimeoutError, "in time"):
            self.get(self.enter(), ["never"], 0.01).result()

    def test_a_wait_may_have_no_deadline(self):
        world = self.enter()
        call = self.get(world, ["key"], float("inf"))
        asked = self.receive("StoreGet")
        self.agent.send(type="StoreValues", epoch=wire(EPOCH), id=asked["id"], rank=0, values=["AAo="])
        self.assertEqual(call.result(), [b"\0\n"])

    def test_an_answer_of_another_length_is_an_error(self):
        call = self.get(self.enter(), ["one", "two"])
        asked = self.receive("StoreGet")
        self.agent.send(type="StoreValues", epoch=wire(EPOCH), id=asked["id"], rank=0, values=[])
        with self.assertRaisesRegex(RingmasterError, "0 values for 2 keys"):
            call.result()

    def test_a_value_that_exceeds_a_line_is_an_error_and_nothing_is_sent(self):
        world = self.enter()
        with self.assertRaisesRegex(UserError, "exceeds the maximum line length"):
            self.membership.store(world).set("key", bytes(MAX_LINE_BYTES))
        self.membership.at_boundary(world, 1)
        self.receive("RankAtBoundary")


class ALostAgent(AgentTest):
    def all_waits(self, world):
        return [
            Call(self.membership.await_world, EPOCH),
            Call(self.membership.finish, World(EPOCH, 1, world.members), Progress(1)),
            Call(self.membership.store(world).get, ["never"], time.monotonic() + LIMIT),
            Call(self.membership.await_grant, 500, 0, 64, "ff", threading.Event()),
        ]

    def assert_lost(self, calls):
        for call in calls:
            with self.assertRaises(PeerLost):
                call.result()

    def test_ends_every_wait_and_every_later_one(self):
        world = self.enter()
        watch = Watch(self.membership, EPOCH)
        calls = self.all_waits(world)
        self.assertEqual(
            {self.agent.receive()["type"] for _ in range(3)}, {"RankDone", "StoreGet", "CheckpointWritten"}
        )
        self.agent.hang_up()
        self.assertIn("closed the connection", watch.wait())
        self.assert_lost(calls)
        with self.assertLogs("ringmaster", "WARNING"):
            self.assert_lost(self.all_waits(world))
            self.membership.broken(world, 1, "nobody hears")
        with self.assertRaises(PeerLost):
            self.membership.store(world).set("key", b"")

    def test_is_one_that_says_what_is_no_message(self):
        for text in (b"}\n", b'{"type":"Release"}\n', b"[" * 100_000 + b"\n", b"\xff\n"):
            with self.subTest(text[:20]):
                self.setUp()
                self.enter()
                watch = Watch(self.membership, EPOCH)
                self.agent.send_bytes(text)
                self.assertIn("listening to the agent", watch.wait())

    def test_is_one_whose_line_does_not_end(self):
        self.enter()
        watch = Watch(self.membership, EPOCH)
        self.agent.send_bytes(b" " * MAX_LINE_BYTES)
        self.assertIn("overlong", watch.wait())

    def test_closing_ends_every_wait(self):
        world = self.enter()
        calls = self.all_waits(world)
        for _ in range(3):
            self.agent.receive()
        self.membership.close()
        self.assert_lost(calls)
        self.assertIsNone(self.agent.receive())
        self.membership.close()


class Forks(AgentTest):
    def fork(self, child):
        """Runs `child` in a forked process and returns the exit code, which is the result of `child`. `child` must
        not raise."""
        process = os.fork()
        if process == 0:
            signal.alarm(int(LIMIT))
            code = 99
            try:
                code = child()
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    def child_uses_it(self, world):
        failures = 0
        logging.disable()
        for call, arguments in (
            (self.membership.await_world, (EPOCH,)),
            (self.membership.finish, (world, Progress(1))),
            (self.membership.store(world).set, ("key", b"")),
            (self.membership.store(world).get, (["key"], time.monotonic() + LIMIT)),
        ):
            try:
                call(*arguments)
                failures += 1
            except PeerLost:
                pass
        self.membership.broken(world, 1, "of a child")
        self.membership.unwatch()
        self.membership.close()
        self.membership = None
        gc.collect()
        return failures

    def test_a_child_neither_speaks_nor_listens_nor_ends_the_connection(self):
        world = self.enter()
        held, let_go = threading.Event(), threading.Event()

        def hold():
            with self.membership._changed, self.membership._watch_lock:
                held.set()
                let_go.wait(LIMIT)

        holder = Call(hold)  # holds the lock for which the child must not wait
        self.assertTrue(held.wait(LIMIT))
        self.assertEqual(self.fork(lambda: self.child_uses_it(world)), 0)
        let_go.set()
        holder.result()
        self.send_world(NEXT)
        self.assertEqual(self.membership.await_world(EPOCH).epoch, NEXT)
        self.membership.at_boundary(world, 1)
        self.receive("RankAtBoundary")

    def test_a_child_that_lives_on_does_not_keep_the_connection_open(self):
        self.enter()
        begin, end = os.pipe()
        process = os.fork()
        if process == 0:
            signal.alarm(int(LIMIT))
            os.close(end)
            os.read(begin, 1)  # until the rank closes its end
            os._exit(0)
        os.close(begin)
        self.membership.close()
        self.assertIsNone(self.agent.receive())
        os.close(end)
        os.waitpid(process, 0)

    def test_a_program_that_it_starts_does_not_have_the_connection(self):
        self.enter()
        self.assertFalse(os.get_inheritable(self.membership._connection._socket.fileno()))


class Connecting(unittest.TestCase):
    def test_says_when_there_is_no_agent(self):
        with self.assertRaisesRegex(Unavailable, "/nonexistent/agent: No such file"):
            AgentMembership("/nonexistent/agent", 0)
        with self.assertRaisesRegex(UserError, "too long"):
            AgentMembership("/" + "a" * 200, 0)

    def test_an_agent_that_takes_nothing_is_lost(self):
        agent = FakeAgent()
        self.addCleanup(agent.close)
        connection = AgentConnection(agent.path, send_limit=0.05)
        self.addCleanup(connection.close)
        agent.accept()
        message = StoreSet(EPOCH, "key", bytes(4 << 20))
        with self.assertRaisesRegex(PeerLost, "accepted no data for 0.05 s"):
            connection.send(message)
        with self.assertRaises(PeerLost):
            connection.send(message)

    def test_the_environment_says_where_the_agent_is(self):
        agent = FakeAgent()
        self.addCleanup(agent.close)
        with mock.patch.dict(os.environ, {"RINGMASTER_AGENT_SOCKET": agent.path, "RINGMASTER_SLOT": "3"}):
            membership = join_membership()
        self.addCleanup(membership.close)
        agent.accept()
        Call(membership.await_world, Epoch())
        self.assertEqual(agent.receive()["slot"], 3)
        with mock.patch.dict(os.environ, {"RINGMASTER_AGENT_SOCKET": agent.path, "RINGMASTER_SLOT": "x"}):
            self.assertRaisesRegex(UserError, "RINGMASTER_SLOT", join_membership)

    def test_without_an_agent_a_process_trains_alone(self):
        environment = {name: value for name, value in os.environ.items() if name != "RINGMASTER_AGENT_SOCKET"}
        with mock.patch.dict(os.environ, environment, clear=True):
            membership = join_membership()
        self.assertIsInstance(membership, LoneMembership)
        world = membership.await_world(Epoch())
        self.assertEqual((world.rank, world.size, world.me.name), (0, 1, "static/0/1"))
        self.assertTrue(membership.finish(world, Progress(1)))
        self.assertIsNone(membership.why_over(world.epoch))
        with self.assertRaises(PeerLost):
            membership.await_world(world.epoch)
        store = membership.store(world)
        store.set("key", b"value")
        self.assertEqual(store.get(["key"], time.monotonic()), [b"value"])
        with self.assertRaises(TimeoutError):
            store.get(["key", "never"], time.monotonic())


if __name__ == "__main__":
    unittest.main()
