"""Tests that the position page has the content that the agent expects, and that SIGUSR2 writes all Python stacks into it."""

import fcntl
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time
import unittest
from unittest import mock

from patience import PATIENCE
from ringmaster.position import Phase, Position
from ringmaster.world import Epoch, Member, World

LIMIT = 30.0 * PATIENCE
STACK_TEXT_AT = 4096
FILE_BYTES = STACK_TEXT_AT + (64 << 10)
FUTEX_WAITERS, FUTEX_OWNER_DIED = 0x80000000, 0x40000000

# A rank whose main thread is blocked in C while it has the interpreter's lock: PyDLL does not release it.
STUCK = """
import ctypes, sys, threading
from ringmaster.position import Position

def helper_waits():
    threading.Event().wait()

def stuck_in_c():
    ctypes.PyDLL(None).sleep(1000)

position = Position.open()
threading.Thread(target=helper_waits, daemon=True).start()
print("ready", flush=True)
stuck_in_c()
"""


def checksum(words):
    total = 0x9E3779B97F4A7C15
    for word in words:
        total = ((total ^ word) * 0xFF51AFD7ED558CCD) % (1 << 64)
        total ^= total >> 32
    return total


class SentenceTest(unittest.TestCase):
    """Tests the message of a connection error."""

    def test_says_what_the_rank_was_doing_also_without_a_page(self):
        position = Position()
        position.enter_world(Epoch(2, 3))
        self.assertEqual(position.doing(), "connecting world 2.3")
        position.set_step(7)
        for phase, doing in ((Phase.ADOPT, "taking over the state of step 7"), (Phase.REDUCE, "reducing step 8")):
            position.enter(phase)
            self.assertEqual(position.doing(), doing)
        position.applied(8, 0.1, 0.1)
        position.enter(Phase.DONE)
        self.assertEqual(position.doing(), "after step 8")

    def test_names_the_peers_whose_address_it_has_or_some_of_all(self):
        members = tuple(Member(f"u{rank}", f"w-{rank}", "n", f"10.0.0.{rank + 1}", 0, "s") for rank in range(12))
        world = World(Epoch(1, 1), 0, members)
        self.assertEqual(world.name_peers("Connection closed by peer [10.0.0.11]:80"), "rank 10 (w-10)")
        self.assertEqual(world.name_peers("Timed out"), "rank 1 (w-1), rank 2 (w-2), rank 3 (w-3), rank 4 (w-4) and 7 more")


class PositionTest(unittest.TestCase):
    def setUp(self):
        self.file = os.memfd_create("page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, self.file)
        os.ftruncate(self.file, FILE_BYTES)
        fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        self.path = f"/proc/{os.getpid()}/fd/{self.file}"

    def open(self):
        with mock.patch.dict(os.environ, RINGMASTER_POSITION_PAGE=self.path):
            return Position.open()

    def words(self):
        return struct.unpack("21q", os.pread(self.file, 21 * 8, 0))

    def owner(self):
        return struct.unpack("I", os.pread(self.file, 4, 21 * 8))[0]

    def position(self):
        words = struct.unpack("11Q", os.pread(self.file, 11 * 8, 0))
        self.assertEqual(words[0], 0x524D504F53000001)
        self.assertEqual(words[10], checksum(words[:10]))
        return words[1:10]

    def stacks(self):
        return os.pread(self.file, FILE_BYTES, STACK_TEXT_AT).split(b"\0", 1)[0].decode()

    def await_stacks(self, of, ask=lambda: None):
        limit = time.monotonic() + LIMIT
        while of not in self.stacks():
            self.assertLess(time.monotonic(), limit, self.stacks())
            ask()
            time.sleep(0.01)

    def stuck_rank(self):
        source = str(pathlib.Path(__file__).resolve().parents[2] / "worker" / "python")
        path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "RINGMASTER_POSITION_PAGE": self.path, "PYTHONPATH": path}
        return subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, env=environment)

    def test_the_page_says_where_the_rank_stands(self):
        position = self.open()
        before = time.monotonic_ns()
        position.enter_world(Epoch(2, 5))
        position.waits_for(3)
        position.applied(7, 0.052, 0.031)
        position.enter(Phase.REDUCE, 2)
        after = time.monotonic_ns()

        term, number, step, bucket, phase, moved, applied, took, own = self.position()
        self.assertEqual((term, number, step, bucket, phase), (2, 5, 7, 2, 5))
        self.assertEqual((took, own), (52_000, 31_000))
        self.assertTrue(before <= applied <= moved <= after)
        self.assertEqual(self.words()[16:], (4, -1, 0, 0, 0))

    def test_a_new_world_has_applied_nothing_and_waits_for_nobody(self):
        position = self.open()
        position.enter_world(Epoch(2, 5))
        position.waits_for(3)
        position.applied(7, 0.052, 0.0)
        position.enter_world(Epoch(2, 6))

        _, number, step, bucket, phase, _, applied, took, own = self.position()
        self.assertEqual((number, step, bucket, phase, applied), (6, 7, 0, Phase.CONNECT, 0))
        self.assertEqual((took, own), (52_000, 1), "its newest step, of any world")
        self.assertEqual(self.words()[16], 0)

    def test_says_nothing_without_a_page(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("RINGMASTER_POSITION_PAGE", None)
            position = Position.open()
        position.enter_world(Epoch(1, 1))
        position.set_step(3)
        position.applied(4, 0.1, 0.1)
        position.waits_for(1)

    def test_a_page_that_cannot_be_mapped_costs_a_warning(self):
        self.path = "/nowhere/page"
        with self.assertLogs("ringmaster", "WARNING"):
            position = self.open()
        position.enter(Phase.DATA)

    def test_the_signal_writes_this_threads_stack_and_a_new_world_makes_room(self):
        position = self.open()
        for number in range(2):
            os.kill(os.getpid(), signal.SIGUSR2)
            self.await_stacks("test_the_signal_writes")
            position.enter_world(Epoch(1, number + 1))
            self.assertEqual(self.stacks(), "")

    def test_signals_beyond_the_room_for_stacks_hurt_nothing(self):
        self.open()
        for _ in range(400):
            os.kill(os.getpid(), signal.SIGUSR2)
        self.assertEqual(os.fstat(self.file).st_size, FILE_BYTES)
        self.assertGreater(len(self.stacks()), FILE_BYTES // 2)

    def test_a_rank_that_is_stuck_in_c_with_the_interpreters_lock_held_still_writes_all_stacks(self):
        with self.stuck_rank() as rank:
            try:
                self.assertEqual(rank.stdout.readline(), b"ready\n")
                self.assertEqual(self.words()[17], -1)
                self.await_stacks("stuck_in_c", lambda: rank.send_signal(signal.SIGUSR2))
                self.assertIn("helper_waits", self.stacks())
            finally:
                rank.kill()

    def test_the_kernel_marks_the_end_of_a_killed_rank(self):
        with self.stuck_rank() as rank:
            try:
                self.assertEqual(rank.stdout.readline(), b"ready\n")
                thread = self.owner() & ~FUTEX_WAITERS
                self.assertTrue(os.path.exists(f"/proc/{rank.pid}/task/{thread}"), thread)
                self.assertNotEqual(thread, rank.pid)
            finally:
                rank.kill()
        self.assertEqual(self.owner(), FUTEX_WAITERS | FUTEX_OWNER_DIED)

    def test_its_calls_cost_microseconds(self):
        position = self.open()

        def each(count=2000):
            begin = time.perf_counter()
            for step in range(count):
                position.applied(step, 0.1, 0.1)
                position.enter(Phase.REDUCE, step)
            return (time.perf_counter() - begin) / (2 * count)

        self.assertLess(min(each() for _ in range(5)), 100e-6)


if __name__ == "__main__":
    unittest.main()
