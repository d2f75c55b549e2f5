"""The position of this rank, in a page of memory that its agent polls (common/control/position_page.h).

The agent uses the position to find the rank that holds up a step. If a rank makes no progress, the agent also sends it
a signal to request its stacks. Python's fault handler writes the stacks, even if a stuck thread holds the interpreter
lock.
"""

import _thread
import contextlib
import ctypes
import faulthandler
import logging
import mmap
import os
import signal
import struct
import time
from enum import IntEnum

from .world import Epoch

_log = logging.getLogger("ringmaster")

_MAGIC = 0x524D504F53000001  # "RMPOS", version 1
_MASK = (1 << 64) - 1
_POSITION = struct.Struct("11Q")  # ten words and their checksum
_WORD = struct.Struct("q")
_PEER_AT, _STACK_OF_AT, _CONNECT_AT, _COLLECTIVES_AT, _OWNER_AT = 128, 136, 144, 152, 168
_STACK_TEXT_AT = 4096
_STACK_TEXT_BYTES = 64 << 10
_ALL_STACKS = -1  # value of the word at _STACK_OF_AT: a signal requests the stacks of all threads at once
_STACK_SIGNAL = signal.SIGUSR2
_FUTEX_WAITERS = 0x80000000
_SYS_SET_ROBUST_LIST = {"x86_64": 273, "aarch64": 99}


class Phase(IntEnum):
    """The phases of a rank, in the order in which they occur in a world and its steps (RankPhase)."""

    WAIT = 0  # waits for a world
    CONNECT = 1  # connects with the other ranks of a new world
    ADOPT = 2  # receives or sends the state
    DATA = 3  # loads the samples of the step
    COMPUTE = 4  # runs forward and backward
    REDUCE = 5  # waits for the other ranks' gradients
    UPDATE = 6  # updates the parameters
    EVALUATE = 7  # evaluates, or does other work that may take long without other ranks
    DONE = 8  # waits until all ranks are released


class Position:
    """Reports the position. An object made by Position() reports nothing. A call takes microseconds. For use by one
    thread at a time."""

    def __init__(self) -> None:
        self._page: mmap.mmap | None = None
        self._file = -1
        self._epoch = Epoch()
        self._step = self._bucket = 0
        self._phase = Phase.WAIT
        self._moved = self._applied = 0  # nanoseconds
        self._took = self._own = 0  # microseconds

    @classmethod
    def open(cls) -> "Position":
        """Returns the position on the page that RINGMASTER_POSITION_PAGE names, valid until the process exits.

        Call it once per process: it installs a handler for SIGUSR2. If the variable is not set or the page cannot be
        mapped (which is logged), returns a position that reports nothing.
        """
        position = cls()
        path = os.environ.get("RINGMASTER_POSITION_PAGE", "")
        if not path:
            return position
        try:
            position._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            position._page = mmap.mmap(position._file, _STACK_TEXT_AT + _STACK_TEXT_BYTES)
        except (OSError, ValueError) as error:
            _log.warning("Disabled position reporting: cannot map %s: %s", path, error)
            return position
        os.lseek(position._file, _STACK_TEXT_AT, os.SEEK_SET)
        faulthandler.register(_STACK_SIGNAL, file=position._file, all_threads=True, chain=False)
        _WORD.pack_into(position._page, _STACK_OF_AT, _ALL_STACKS)
        _sign_of_kill_in(position._page)
        position._write()
        return position

    def doing(self) -> str:
        """Describes the position for errors and logs."""
        if self._phase == Phase.CONNECT:
            return f"connecting world {self._epoch.term}.{self._epoch.number}"
        if self._phase == Phase.ADOPT:
            return f"taking over the state of step {self._step}"
        if self._phase in (Phase.DATA, Phase.COMPUTE, Phase.REDUCE):
            return f"reducing step {self._step + 1}"
        return f"after step {self._step}"

    def enter(self, phase: Phase, bucket: int = 0) -> None:
        self._phase, self._bucket = phase, bucket
        if self._page is None:
            return
        self._moved = time.monotonic_ns()
        self._write()

    def enter_world(self, epoch: Epoch) -> None:
        """Reports that the rank starts connecting in this world."""
        self._epoch, self._applied = epoch, 0
        self._phase = Phase.CONNECT
        if self._page is None:
            return
        self.waits_for(-1)
        _WORD.pack_into(self._page, _CONNECT_AT, 0)
        self._page[_COLLECTIVES_AT : _COLLECTIVES_AT + 16] = bytes(16)
        self._rewind_stacks()
        self.enter(Phase.CONNECT)

    def set_step(self, step: int) -> None:
        """Sets the number of steps in the state; the next report includes it."""
        self._step = step

    def applied(self, step: int, took_s: float, own_s: float) -> None:
        """Reports that this step was applied. `own_s` is the step's duration in seconds, without the time spent waiting
        for other ranks."""
        self._step = step
        if self._page is None:
            return
        self._took, self._own = max(1, int(took_s * 1e6)), max(1, int(own_s * 1e6))
        self._applied = time.monotonic_ns()
        self._write()

    def waits_for(self, peer: int) -> None:
        """Reports the rank that this rank waits for; -1 if unknown."""
        if self._page is not None:
            _WORD.pack_into(self._page, _PEER_AT, peer + 1)

    def _write(self) -> None:
        assert self._page is not None
        words = (
            _MAGIC,
            self._epoch.term,
            self._epoch.number,
            self._step,
            self._bucket,
            int(self._phase),
            self._moved,
            self._applied,
            self._took,
            self._own,
        )
        total = 0x9E3779B97F4A7C15
        for word in words:
            total = (total ^ word) * 0xFF51AFD7ED558CCD & _MASK
            total ^= total >> 32
        _POSITION.pack_into(self._page, 0, *words, total)

    def _rewind_stacks(self) -> None:
        """Erases the stacks of an earlier world, which the agent has already read, to make room for new ones."""
        assert self._page is not None
        with contextlib.suppress(OSError):
            written = os.lseek(self._file, 0, os.SEEK_CUR) - _STACK_TEXT_AT
            if written > 0:
                os.lseek(self._file, _STACK_TEXT_AT, os.SEEK_SET)
                self._page[_STACK_TEXT_AT : _STACK_TEXT_AT + written] = bytes(written)


class _RobustList(ctypes.Structure):
    """The kernel's struct robust_list_head, with its only entry."""

    _fields_ = (
        ("first", ctypes.c_void_p),
        ("futex_offset", ctypes.c_long),
        ("pending", ctypes.c_void_p),
        ("entry", ctypes.c_void_p),
    )
    HEAD_BYTES = 3 * ctypes.sizeof(ctypes.c_void_p)


def _sign_of_kill_in(page: mmap.mmap) -> None:
    """Lets the agent learn immediately that this process was killed, before the kernel has freed its memory and its
    GPU.

    A thread, which lives as long as the process, owns a robust futex in the page (kOwnerWord in
    common/control/position_page.h). The kernel marks the futex when the thread ends. If the machine does not support
    this, the agent learns that the process was killed only once the process is gone.
    """
    number = _SYS_SET_ROBUST_LIST.get(os.uname().machine)
    if number is None:
        return
    # Both must exist as long as the process: when it ends, the kernel reads the list and writes to the page.
    owner = ctypes.c_uint32.from_buffer(page, _OWNER_AT)
    robust = _RobustList()
    begin = ctypes.addressof(robust)
    robust.first = begin + _RobustList.entry.offset
    robust.entry = begin
    robust.futex_offset = ctypes.addressof(owner) - robust.first
    held = _thread.allocate_lock()
    held.acquire()

    def hold() -> None:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            # Replaces the C library's list, which is for robust mutexes; this thread locks none.
            if libc.syscall(number, ctypes.byref(robust), ctypes.c_size_t(_RobustList.HEAD_BYTES)) == 0:
                owner.value = _thread.get_native_id() | _FUTEX_WAITERS
        finally:
            held.release()
        while True:
            libc.pause()

    try:
        libc = ctypes.CDLL(None)
        _thread.start_new_thread(hold, ())
    except (OSError, RuntimeError) as error:
        _log.warning("Failed to start the thread that lets the agent detect a kill of this rank early: %s", error)
        return
    held.acquire()
