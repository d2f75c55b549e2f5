"""The agent's end of one rank's connection, which sends and receives messages line by line."""

import json
import os
import socket
import tempfile
import threading

from patience import PATIENCE

LIMIT = 20.0 * PATIENCE  # seconds; timeout of everything that a test waits for


class FakeAgent:
    """Listens on `path`. No method waits longer than LIMIT."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self._folder.name, "agent")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(LIMIT)
        self._listener.bind(self.path)
        self._listener.listen(1)
        self._connection = None
        self._lines = None

    def accept(self):
        self._connection, _ = self._listener.accept()
        self._connection.settimeout(LIMIT)
        self._lines = self._connection.makefile("rb")

    def send(self, **message):
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data):
        self._connection.sendall(data)

    def receive(self):
        """Returns the rank's next message; None if the rank closed the connection."""
        line = self._lines.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def hang_up(self):
        self._lines.close()
        self._connection.close()

    def close(self):
        if self._connection is not None:
            self.hang_up()
        self._listener.close()
        self._folder.cleanup()


class Call:
    """A call that runs on a separate thread."""

    def __init__(self, function, *arguments):
        self._function, self._arguments = function, arguments
        self._value = self._error = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self._value = self._function(*self._arguments)
        except Exception as error:
            self._error = error

    def result(self):
        """Waits for the call; returns its result or raises its exception."""
        self._thread.join(LIMIT)
        if self._thread.is_alive():
            raise AssertionError(f"{self._function} did not come to an end")
        if self._error is not None:
            raise self._error
        return self._value
