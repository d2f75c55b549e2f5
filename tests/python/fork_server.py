"""Runs scripts that use PyTorch in processes forked from a process that has imported it, because an import takes seconds of CPU time.

The server is a new interpreter with one thread. The test program starts the server when it first needs a fork. A fork runs a
script like `python3 script`, with separate arguments, environment and output. In every fork, the modules are in the
state after their import, and hash() has the same seed. A fork exits without tearing down the modules, which would
take a second. Forks end with the server, and the server ends with the test program.
"""

import atexit
import builtins
import ctypes
import functools
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import types

_PATIENCE = 120.0  # seconds: importing all modules on a busy machine
_MESSAGE_BYTES = 1 << 17  # enough for a message with an environment
_PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "worker", "python")
_PR_SET_PDEATHSIG = 1

# The modules that ranks import, including later imports: an optimizer's first step imports torch._dynamo.
_RANKS = ["torch", "torch._dynamo", "ringmaster.job", "ringmaster.agent", "ringmaster.alone"]


@functools.cache
def of_ranks(*modules):
    """Returns the test program's server for ranks, which also imports `modules`."""
    server = ForkServer([*_RANKS, *modules])
    atexit.register(server.close)
    return server


def environment(**variables):
    """Returns the environment of a rank or of the server: the environment of this process plus `variables`."""
    path = os.path.normpath(_PACKAGE) + os.pathsep + os.environ.get("PYTHONPATH", "")
    return dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", PYTHONPATH=path, **variables)


class ForkServer:
    """A process that has imported `modules`, none of which starts a thread. Thread-safe, but use each Process on one thread at a time."""

    def __init__(self, modules):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_PATIENCE)
        self._lock = threading.Lock()
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen([sys.executable, os.path.abspath(__file__), str(number), *modules],
                                             env=environment(), pass_fds=[number], stdout=subprocess.DEVNULL)

    def start(self, script, arguments, environment, stderr):
        """Runs the file `script`. Standard error goes to the file `stderr`; standard output is a pipe, as with subprocess.PIPE."""
        reader, writer = os.pipe()
        try:
            pid = self.ask([stderr.fileno(), writer], script=script, arguments=arguments, environment=environment)
        finally:
            os.close(writer)
        return Process(self, pid, open(reader, "rb"))

    def ask(self, descriptors, **message):
        """Sends a message and returns the answer. Only for Process."""
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(message).encode()], descriptors)
            answer = self._socket.recv(_MESSAGE_BYTES)
        if not answer:
            raise AssertionError("the fork server ended; what it printed says why")
        return json.loads(answer)

    def close(self):
        """Ends the server and all its forks."""
        self._socket.close()
        self._process.wait()


class Process:
    """A fork, with the same interface as subprocess.Popen."""

    def __init__(self, server, pid, stdout):
        self.pid = pid
        self.stdout = stdout
        self.returncode = None
        self._server = server
        self._ended = os.pidfd_open(pid)

    def poll(self):
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork", timeout)
            self.returncode = self._server.ask([], ended=self.pid)
            os.close(self._ended)
        return self.returncode

    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


# --- in the server


def _serve(control):
    """Serves requests. Returns only in a fork, with the script to run and its arguments."""
    server = os.getpid()
    while True:
        text, descriptors, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 2)
        if not text:
            os._exit(0)  # the test program has ended
        message = json.loads(text)
        if "ended" in message:
            _, status = os.waitpid(message["ended"], 0)
            control.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())
            continue
        if len(os.listdir("/proc/self/task")) != 1:
            sys.exit("fork server: an import has started a thread, so that what is forked may hang")
        child = os.fork()
        if child == 0:
            _end_with(server)
            control.close()
            for standard, descriptor in zip((2, 1), descriptors):
                os.dup2(descriptor, standard)
                os.close(descriptor)
            return message
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(json.dumps(child).encode())


def _end_with(server):
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)


def _run(script, arguments, environment):
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = [script, *arguments]
    sys.path[0] = os.path.dirname(script)
    main = types.ModuleType("__main__")
    main.__dict__.update(__annotations__={}, __builtins__=builtins, __cached__=None, __file__=script)
    sys.modules["__main__"] = main
    with open(script, encoding="utf-8") as file:
        code = compile(file.read(), script, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _exit_code_of(function, **arguments):
    """Calls the function and ends as an interpreter does: prints an exception and flushes the output. Returns the exit code."""
    code = 0
    try:
        function(**arguments)
    except SystemExit as exit_:
        code = exit_.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException as error:
        sys.last_value = error
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    for module in sys.argv[2:]:
        importlib.import_module(module)
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        request = _serve(connection)
    os._exit(_exit_code_of(_run, **request))
