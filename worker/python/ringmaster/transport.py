"""Connects the ranks of a world, and runs their collectives, which end when the world ends.

A world has its own process group, created with public calls of torch 2.2 and later; the script's default group is
unaffected. Gloo connects ranks on CPUs, NCCL ranks on GPUs. A separate thread connects the ranks, because a thread that
waits for a lost rank cannot be woken before its time limit. If a rank is lost, this thread is abandoned; it frees its
objects when it ends.

Gloo notifies only the neighbours of a lost rank, and its abort() does not wake waiting operations. Shutting down the
world's connected sockets wakes every operation. The world's sockets are those that were opened while the world
connected and that lead to one of its members. The listening socket stays open, because Gloo ends the process if that
socket fails.
"""

from __future__ import annotations

import atexit
import ctypes
import ipaddress
import os
import re
import socket
import threading
import time
from datetime import timedelta
from typing import Callable, Sequence

import torch
import torch.distributed as dist

from .errors import RingmasterError, UserError, WorldOver
from .random_state import seed_for
from .rendezvous import TorchStore
from .world import Store, World

# torch's NCCL watchdog must not end a process whose peers are gone; this module handles that case.
_NCCL_SETTINGS = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_PROPAGATE_ERROR": "0",
}

# Limit of one collective. A rank may compute for long while the others wait; the launcher detects lost ranks.
_OPERATION_LIMIT = timedelta(minutes=30)
# Before 2.15, Gloo uses the group's limit for operations; a thread that connects to a lost rank may then wait as long.
_GLOO_HAS_OPERATION_LIMITS = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 15)

_LOOK_INTERVAL = timedelta(seconds=0.1)  # time between checks whether the world has ended
_FREE_LIMIT = 2.0  # seconds to wait at exit for threads that free groups


def _sockets() -> dict[int, str]:
    """Returns the inodes of this process's open sockets by descriptor."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue  # closed in the meantime
        if link.startswith("socket:"):
            found[int(name)] = link
    return found


def _address(text: str) -> str:
    """Normalizes an address."""
    try:
        parsed = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    mapped = getattr(parsed, "ipv4_mapped", None)
    return str(mapped or parsed)


def _leads_to(connection: socket.socket, addresses: set[str]) -> bool:
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        return _address(connection.getpeername()[0]) in addresses
    except OSError:
        return False  # a listening socket, or a connection that has ended


class Work:
    """A collective in progress. wait() raises WorldOver if the collective does not complete."""

    def __init__(self, communicator: "Communicator", works: Sequence):
        self._communicator = communicator
        self._works = works

    def wait(self) -> None:
        """Blocks until the result is in the tensor and settled (Communicator.settle())."""
        self.order()
        self._communicator.settle()

    def order(self) -> None:
        """Like wait(), but on a GPU, only the current stream waits. Call settle() before using results, because aborted
        operations end without an error."""
        for work in self._works:
            self._communicator.wait_for(work)
        self._communicator.check()

    def under_way(self) -> bool:
        """Returns whether the collective may still write to its tensor. This is possible even after a failure."""
        return not all(work.is_completed() for work in self._works)


class Communicator:
    """The process group of one world. Any thread may call abort(); one thread may call the other functions.

    A world of one rank has no group, so its collectives do nothing.
    """

    def __init__(self, world: World, device: torch.device, timeout: float):
        self.world = world
        self.device = device
        self._timeout = timeout
        self._group = None
        self._before = _sockets()
        self._own: dict[int, str] | None = None  # the world's sockets, once it is connected
        self._peers = {_address(member.address) for member in world.members}
        self._lock = threading.Lock()
        self._reason: str | None = None  # why the communicator was aborted
        self._gave_up: torch.Tensor | None = None  # over NCCL: 1 in page-locked memory after abort()
        self._settled = 0  # number of confirmations in this world
        self._connected = threading.Event()
        self._failure: Exception | None = None

    @property
    def rank(self) -> int:
        return self.world.rank

    @property
    def size(self) -> int:
        return self.world.size

    def connect(self, store: Store) -> None:
        """Blocks until all ranks are connected. Raises WorldOver if they did not connect in time or abort() was
        called."""
        if self.size == 1:
            self.check()
            return
        thread = threading.Thread(target=self._connect, args=(store,), name="ringmaster-connect", daemon=True)
        thread.start()
        in_time = self._connected.wait(self._timeout)
        self.check()
        if not in_time:
            self.abort("the other ranks did not connect in time")
            raise WorldOver(f"connecting {self.size} ranks took longer than {self._timeout:g} s")
        if isinstance(self._failure, RingmasterError):
            raise self._failure
        if self._failure is not None:
            raise self.broken(self._failure)

    def _connect(self, store: Store) -> None:
        group = None
        try:
            group = self._make(store)
        except Exception as error:  # an error of any kind; connect() raises it on the waiting thread
            self._failure = error
        own = {descriptor: inode for descriptor, inode in _sockets().items() if self._before.get(descriptor) != inode}
        with self._lock:
            if self._reason is None:
                self._group = group
                self._own = own
        self._connected.set()

    def _make(self, store: Store):
        limit = timedelta(seconds=self._timeout)
        if self.device.type == "cuda":
            adapter = TorchStore(store, self._timeout)
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = limit
            with torch.cuda.device(self.device):
                group = dist.ProcessGroupNCCL(adapter, self.rank, self.size, options)
                group.allreduce([torch.zeros(1, device=self.device)]).wait()  # NCCL connects in the first collective
            self._gave_up = torch.zeros(1, dtype=torch.int64, device="cpu", pin_memory=True)
            return group
        adapter = TorchStore(store, self._timeout, self.rank, self.size)
        options = dist.ProcessGroupGloo._Options()
        options._timeout = limit if _GLOO_HAS_OPERATION_LIMITS else _OPERATION_LIMIT
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=self.world.address)]
        return dist.ProcessGroupGloo(adapter, self.rank, self.size, options)

    def abort(self, reason: str) -> None:
        """Ends all operations, including waiting ones, as soon as possible."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            if self._gave_up is not None:
                self._gave_up.fill_(1)  # before the abort; see _confirm()
            groups = [self._group] if self.device.type == "cuda" and self._group is not None else []
        self._connected.set()
        if groups:
            _free(lambda: _abort_nccl(groups), "ringmaster-abort")
        self._cut()

    def _cut(self) -> None:
        for descriptor, inode in (_sockets() if self._own is None else self._own).items():
            if self._before.get(descriptor) == inode:
                continue
            try:
                copy = os.dup(descriptor)
            except OSError:
                continue  # closed in the meantime
            if os.readlink(f"/proc/self/fd/{copy}") != inode:  # closed in the meantime; another file has the number
                os.close(copy)
                continue
            with socket.socket(fileno=copy) as connection:
                if _leads_to(connection, self._peers):
                    try:
                        connection.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        continue  # the other end has closed it already

    @property
    def over(self) -> bool:
        """Returns whether the communicator was aborted."""
        return self._reason is not None

    def check(self) -> None:
        """Raises WorldOver after abort()."""
        if self._reason is not None:
            raise WorldOver(self._reason, told=True)

    def settle(self) -> None:
        """Blocks until a GPU's current stream has completed its operations. Call it before using results of collectives,
        on all ranks after the same collectives. Raises WorldOver after abort(), or if a rank aborted one of them."""
        complete = self._gave_up is None or self._group is None or self._confirm(self._gave_up)
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        self.check()
        if not complete:
            raise WorldOver("another rank aborted an earlier operation, so the received data is invalid")

    def _confirm(self, gave_up: torch.Tensor) -> bool:
        """Returns whether no rank has aborted an earlier collective. Needed over NCCL, because the kernels of a rank that
        aborts stop waiting for data but still send what is in their buffers, and then the operation succeeds on other
        ranks. Gloo sends only what it has received, and an operation that was cut off raises an error.

        The ranks sum one number. A rank's device adds its part when the stream has reached it, after the collectives,
        and reads then whether the rank has given up. The number is odd and unique, so no other sum is equal to it."""
        self._settled += 1
        part = seed_for(*self.world.epoch, self._settled) % 2**46 | 1
        total = part * (1 - gave_up.to(self.device, non_blocking=True))
        self.all_reduce(total).order()
        return total.item() == part * self.size

    def broken(self, error: Exception) -> WorldOver:
        """Returns the error to raise for a failed operation."""
        if self._reason is not None:
            return WorldOver(self._reason, told=True)
        return WorldOver(_sentence(error))

    def close(self) -> None:
        """Leaves the world. Frees the group on a separate thread, because freeing waits for the group's operations."""
        self.abort("the rank left this world")
        groups: list = []
        with self._lock:
            groups.append(self._group)
            self._group = None
        _free(groups.clear, "ringmaster-free")

    def wait_for(self, work) -> None:
        """Blocks until the torch operation `work` is done. Raises WorldOver if it failed or the world ended.

        Gloo does not wake an operation that starts on connections that have already failed, so this function checks
        for abort() periodically.
        """
        while True:
            completed = work.is_completed()  # if not, the error may only say that the interval has passed
            try:
                work.wait(_LOOK_INTERVAL) if self.device.type == "cpu" else work.wait()
                return
            except RuntimeError as error:
                if self.over or completed:
                    raise self.broken(error) from None

    # --- collectives; tensors are contiguous and on `device`

    def all_reduce(self, tensor: torch.Tensor) -> Work:
        """Sums `tensor` over the ranks in place. The result is bitwise equal on all ranks."""
        if self._group is None:
            self.check()
            return Work(self, ())
        return self._begin(lambda: self._group.allreduce([tensor], _limited(dist.AllreduceOptions())))

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        if self._group is None:
            self.check()
            return
        options = _limited(dist.BroadcastOptions())
        options.rootRank = source
        options.rootTensor = 0
        self._begin(lambda: self._group.broadcast([tensor], options)).wait()

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Returns the tensors of all ranks, by rank."""
        if self._group is None:
            self.check()
            return [tensor.clone()]
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        options = dist.distributed_c10d.AllgatherOptions()
        self._begin(lambda: self._group.allgather([gathered], [tensor], _limited(options))).wait()
        return gathered

    def _begin(self, collective) -> Work:
        self.check()
        try:
            return Work(self, (collective(),))
        except RuntimeError as error:
            raise self.broken(error) from None


def device_of(parameters: Sequence[torch.nn.Parameter]) -> torch.device:
    """Returns the device of all parameters. Raises UserError if there are no parameters, or they are on several devices
    or on an unsupported device."""
    devices = {parameter.device for parameter in parameters}
    if not devices:
        raise UserError("the model has no parameters that require gradients; set requires_grad on those to train")
    if len(devices) > 1:
        names = ", ".join(sorted(map(str, devices)))
        raise UserError(f"the model's parameters are on several devices ({names}); move them to one")
    device = devices.pop()
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"the model is on {device}; move it to the CPU or a CUDA device before join()")
    if device.type == "cuda":
        for name, value in _NCCL_SETTINGS.items():
            os.environ[name] = value
    return device


_freeing: list[threading.Thread] = []  # threads that abort or free a group
_freeing_lock = threading.Lock()


def _free(call: Callable[[], None], name: str) -> None:
    """Runs `call`, which may drop the last reference to a group, on a thread for which _await_freed() waits."""
    thread = threading.Thread(target=call, name=name, daemon=True)
    with _freeing_lock:
        _freeing[:] = [one for one in _freeing if one.is_alive()]
        thread.start()
        _freeing.append(thread)


@atexit.register
def _await_freed() -> None:
    """Waits for threads that abort or free a group, because Python may end a thread at any point when it exits, and a
    partly freed group crashes the process. A thread that still waits for an operation is harmless."""
    limit = time.monotonic() + _FREE_LIMIT
    with _freeing_lock:
        threads = list(_freeing)
    for thread in threads:
        thread.join(max(0.0, limit - time.monotonic()))


def _sentence(error: Exception) -> str:
    """Returns Gloo's error message without its source location and advice."""
    text = (str(error).splitlines() or [""])[0]
    return re.sub(r"^\[[^\]]*\]\s*", "", text).split(". This is typically")[0] or type(error).__name__


def _limited(options):
    options.timeout = _OPERATION_LIMIT
    return options


def _abort_nccl(groups: list) -> None:
    group = groups.pop()
    abort = getattr(group, "abort", None) or group._abort
    abort()


def buffer_of(tensor: torch.Tensor) -> memoryview:
    """Returns the bytes of a contiguous tensor in host memory. The result keeps the tensor alive."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    memory = (ctypes.c_char * size).from_address(tensor.data_ptr())
    memory.tensor = tensor  # the view keeps `memory`
    return memoryview(memory).cast("B")
