"""Tests that a fork of the server runs a script as a new interpreter does."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from fork_server import ForkServer, environment
from patience import PATIENCE

LIMIT = 30.0 * PATIENCE

# What a script sees of its process.
SEES = """
import json, os, random, signal, sys, threading
signals = {str(number): str(signal.getsignal(number)).split(" at ")[0] for number in signal.valid_signals()}
files = sorted(os.listdir("/proc/self/fd"), key=int)
print(json.dumps([sys.argv, sys.path, dict(os.environ), os.getcwd(), os.umask(0o22), signals, len(files), __name__, __file__,
                  sorted(globals()), __import__("__main__").__dict__ is globals(), os.listdir("/proc/self/task") ==
                  [str(os.getpid())], sys.flags.__repr__(), sys.stdout.line_buffering, sys.stderr.line_buffering]))
"""

# How it may end.
ENDS = {
    "the last line": "print('one')",
    "exit with a number": "import sys\nprint('one', end='')\nsys.exit(75)",
    "exit with a sentence": "raise SystemExit('a sentence')",
    "an error": "def f():\n    raise ValueError('two')\nf()",
    "an error of its syntax": "print('one'\n",
    "an error and a hook": "import sys\nsys.excepthook = lambda *error: print('hook', error[1])\nraise ValueError('two')",
    "at once": "import os\nprint('one')\nos._exit(3)",
    "a signal": "import os, signal\nprint('one', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)",
    "what runs at the end": "import atexit, threading\natexit.register(print, 'end')\n"
                            "threading.Thread(target=lambda: print('thread')).start()",
}


class ForksAndProcesses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ForkServer(["json", "random", "threading"])
        cls.addClassCleanup(cls.server.close)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.script = pathlib.Path(folder.name) / "script.py"
        self.log = pathlib.Path(folder.name) / "log"

    def start(self, source):
        self.script.write_text(source, encoding="utf-8")
        with self.log.open("wb") as log:
            process = self.server.start(str(self.script), ["a", "b c"], environment(EXTRA="1"), log)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, LIMIT)
        self.addCleanup(process.kill)
        return process

    def both(self, source):
        """Runs the source in a fork and in a new process; returns the output, exit code and errors of each."""
        fork = self.start(source)
        forked = fork.stdout.read(), fork.wait(LIMIT), self.log.read_text(encoding="utf-8")
        process = subprocess.run([sys.executable, self.script, "a", "b c"], env=environment(EXTRA="1"), capture_output=True,
                                 timeout=LIMIT)
        return forked, (process.stdout, process.returncode, process.stderr.decode())

    def test_see_the_same(self):
        (forked, _, errors), (expected, _, _) = self.both(SEES)
        self.assertEqual(errors, "")
        for ours, theirs in zip(json.loads(forked), json.loads(expected), strict=True):
            self.assertEqual(ours, theirs)

    def test_end_the_same(self):
        for name, source in ENDS.items():
            with self.subTest(name):
                forked, expected = self.both(source)
                self.assertEqual(forked[:2], expected[:2])
                self.assertEqual(forked[2].splitlines()[-1:], expected[2].splitlines()[-1:])

    def test_are_killed_and_stopped_by_their_number(self):
        fork = self.start("import time\nprint('one', flush=True)\ntime.sleep(600)")
        fork.stdout.readline()
        os.kill(fork.pid, signal.SIGSTOP)
        self.assertIsNone(fork.poll())
        with self.assertRaises(subprocess.TimeoutExpired):
            fork.wait(0.01)
        fork.kill()
        self.assertEqual(fork.wait(LIMIT), -signal.SIGKILL)
        self.assertEqual(fork.stdout.read(), b"")

    def test_end_with_the_program_that_started_them(self):
        program = f"""if True:
            import os, sys
            sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
            from fork_server import ForkServer
            fork = ForkServer([]).start({str(self.script)!r}, [], dict(os.environ), sys.stderr)
            fork.stdout.readline()
            os.kill(os.getpid(), 9)
        """
        self.script.write_text("import sys, time\nprint(1, flush=True)\ntime.sleep(600)", encoding="utf-8")
        ended = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, timeout=LIMIT)  # until all close it
        self.assertEqual(ended.returncode, -signal.SIGKILL)
        self.assertEqual(ended.stderr, b"")

    def test_are_refused_once_an_import_has_started_a_thread(self):
        (self.script.parent / "threads.py").write_text("import threading, time\n"
                                                       "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()")
        path = str(self.script.parent) + os.pathsep + os.environ.get("PYTHONPATH", "")
        with mock.patch.dict(os.environ, PYTHONPATH=path):
            server = ForkServer(["threads"])
        self.addCleanup(server.close)
        with self.assertRaisesRegex(AssertionError, "the fork server ended"), self.log.open("wb") as log:
            server.start(str(self.script), [], {}, log)


if __name__ == "__main__":
    unittest.main()
