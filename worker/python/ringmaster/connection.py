"""A rank's connection to its agent, which carries messages as lines over a unix socket.

The C++ version is common/control/blocking_line_client.h.
"""

import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from .errors import PeerLost, Unavailable, UserError
from .messages import MAX_LINE_BYTES, MessageError, decode, encode

_CHUNK_BYTES = 1 << 16


class AgentConnection:
    """A connection. One thread may receive while others send; shut_down() wakes all of them.

    Raises Unavailable if no process listens on `path`, and UserError if the path is too long for a socket. `send_limit`
    is the time in seconds after which an agent that accepts no data counts as lost.
    """

    def __init__(self, path: str, send_limit: float = 10.0):
        self._send_limit = send_limit
        self._pid = os.getpid()
        self._send_lock = threading.Lock()  # so that the lines of two threads do not mix
        self._socket = socket.socket(socket.AF_UNIX)  # not inherited by programs that this process starts
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            text = f"connecting to the agent at {path}: {error.strerror or error}"
            raise (Unavailable if error.errno else UserError)(text) from None

    def send(self, message: Any) -> None:
        """Sends the whole message. Raises PeerLost if the agent is gone or accepts no data, and UserError if the
        message is too long."""
        line = encode(message)
        if len(line) > MAX_LINE_BYTES:
            raise UserError(f"a {type(message).__name__} of {len(line)} bytes exceeds the maximum line length")
        if os.getpid() != self._pid:
            raise PeerLost("sending to the agent: this process was forked from a rank")
        with self._send_lock:
            try:
                self._write(line)
            except OSError as error:
                self.shut_down()
                raise PeerLost(f"sending to the agent: {error.strerror or error}") from None
            except BaseException:  # a signal handler raised; part of a line may have been sent
                self.shut_down()
                raise

    def _write(self, line: bytes) -> None:
        deadline = time.monotonic() + self._send_limit
        left = memoryview(line)
        while left:
            try:
                left = left[self._socket.send(left, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                poller = select.poll()
                poller.register(self._socket, select.POLLOUT)
                if not poller.poll(max(deadline - time.monotonic(), 0) * 1000):
                    raise TimeoutError(f"it accepted no data for {self._send_limit:g} s") from None

    def receive(self) -> Iterator[Any]:
        """Yields messages until the agent closes the connection or shut_down() is called. Raises MessageError if a line
        is not a message."""
        buffer = bytearray()
        scanned = 0  # there is not a newline before this offset
        while True:
            newline = buffer.find(b"\n", scanned)
            if newline >= 0:
                message = decode(bytes(buffer[:newline]))
                del buffer[: newline + 1]
                scanned = 0
                if message is not None:
                    yield message
                continue
            scanned = len(buffer)
            if scanned >= MAX_LINE_BYTES:
                raise MessageError("the agent sent an overlong line")
            chunk = self._socket.recv(_CHUNK_BYTES)
            if not chunk:
                return
            buffer += chunk

    def shut_down(self) -> None:
        """Shuts down both directions. Does nothing in a forked child, because the connection belongs to the rank."""
        if os.getpid() != self._pid:
            return
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the connection has already ended

    def close(self) -> None:
        """Closes the socket. Call it after shut_down() once no thread receives, or in a forked child to close its
        copy."""
        self._socket.close()
