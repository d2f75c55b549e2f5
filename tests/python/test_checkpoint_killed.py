"""Kills the writer of a checkpoint at any moment, and tests that an incomplete checkpoint never counts as complete."""

import faulthandler
import itertools
import os
import pathlib
import random
import shutil
import signal
import tempfile
import threading
import time
import unittest
from unittest import mock

import torch

from ringmaster.alone import LoneMembership
from ringmaster.checkpoint import Keeper
from ringmaster.checkpoint_folder import _Sink
from ringmaster.state import LocalState, StateVersion
from ringmaster.world import Epoch

LIMIT = 30.0


def setUpModule():
    torch.set_num_threads(1)  # a forked child has no threads to share work with


class KilledWriterTest(unittest.TestCase):
    def setUp(self):
        memory = "/dev/shm"  # a killed process's files stay in memory, too
        folder = tempfile.TemporaryDirectory(dir=memory if os.path.isdir(memory) else None)
        self.addCleanup(folder.cleanup)
        self.volume = pathlib.Path(folder.name)

    def open(self, keep=3):
        variables = {"RINGMASTER_CHECKPOINT_DIR": str(self.volume), "RINGMASTER_CHECKPOINT_KEEP": str(keep)}
        with mock.patch.dict(os.environ, variables):
            keeper = Keeper.open(LoneMembership(), "")
        self.addCleanup(keeper.close)
        return keeper

    def test_a_writer_killed_at_any_moment_leaves_only_whole_ones(self):
        seed = random.randrange(1 << 30)
        chance = random.Random(seed)
        newest = 0
        with self.subTest(seed=seed):
            for _ in range(4):
                self.kill_after(chance.randint(2, 8), chance.uniform(0, 0.05))
                newest = self.check_newest(at_least=max(1, newest))

    def test_a_writer_killed_at_any_of_its_calls_leaves_only_whole_ones(self):
        newest = 0
        for call in range(1, 100):
            if not self.killed_at(call, newest + 1):
                break
            newest = self.check_newest(at_least=newest)
        self.assertEqual(self.check_newest(at_least=newest + 1), newest + 1)
        self.assertGreater(call, 10)

    def check_newest(self, at_least):
        """Returns the step of the newest checkpoint, which must be complete."""
        keeper = self.open()
        restored = keeper.restore(LocalState())
        keeper.close()  # also ends its thread, before the next fork
        if restored is None:
            self.assertEqual(at_least, 0)
            return 0
        step = restored.held.version.step
        self.assertGreaterEqual(step, at_least)
        self.assertTrue(torch.equal(restored.state["model"]["w"], torch.full((10_000,), float(step))))
        return step

    def fork(self, function, *arguments):
        """Runs the function in a separate process; returns the process id."""
        self.assertEqual(threading.active_count(), 1)
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(LIMIT, exit=True)
            try:
                function(*arguments)
            finally:
                os._exit(1)
        return child

    def killed_at(self, call, step):
        """Writes this step in a process that is killed at this call to the file system; returns whether the process was killed."""
        _, status = os.waitpid(self.fork(self.write_until_killed, call, step), 0)
        self.assertIn(status, (0, signal.SIGKILL))
        return status != 0

    def write_until_killed(self, call, step):
        left = [call]

        def counted(function):
            def run(*args, **named):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **named)

            return run

        for owner, name in (
            (os, "fsync"),
            (pathlib.Path, "mkdir"),
            (pathlib.Path, "rename"),
            (pathlib.Path, "open"),
            (_Sink, "write"),
            (shutil, "rmtree"),
        ):
            setattr(owner, name, counted(getattr(owner, name)))
        keeper = self.open(keep=1)
        self.take(keeper, step)
        os._exit(0 if keeper.wait(LIMIT) else 1)

    def take(self, keeper, step, **options):
        """Writes a checkpoint whose values are all the step's number."""
        content = {"model": {"w": torch.full((10_000,), float(step))}, "optimizer": {}, "extras": {}}
        keeper.take(LocalState(StateVersion(Epoch(1, 1), step)), lambda: content, **options)

    def kill_after(self, checkpoints, seconds):
        """Kills the writer after this number of checkpoints and a delay."""
        reader, writer = os.pipe()
        child = self.fork(self.write_steps, writer)
        os.close(writer)
        with open(reader, "rb") as lines:
            try:
                for _ in range(checkpoints):
                    self.assertTrue(lines.readline(), "the writer ended")
                time.sleep(seconds)
            finally:
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
        self.assertEqual(status, signal.SIGKILL)

    def write_steps(self, lines):
        """Writes checkpoints of increasing steps as fast as possible, and a line for each checkpoint that has begun."""
        keeper = self.open()
        restored = keeper.restore(LocalState())
        for step in itertools.count(1 if restored is None else restored.held.version.step + 1):
            self.take(keeper, step, wait_s=LIMIT)
            os.write(lines, b"\n")


if __name__ == "__main__":
    unittest.main()
