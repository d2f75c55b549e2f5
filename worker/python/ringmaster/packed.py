"""A state for transfer: a skeleton (nested dicts and lists, numbers, strings) and a list of tensors."""

from __future__ import annotations

import hashlib
import io
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

import torch

from .errors import UserError
from .transport import buffer_of

_COUNTER = "__counter__"  # the only key of a dict that stands for a collections.Counter
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass
class Packed:
    """A state for transfer. `tensors` are detached, on the devices of the state's tensors, and share the memory of the
    state's tensors."""

    skeleton: Any
    tensors: list[torch.Tensor] = field(default_factory=list)
    places: list[str] = field(default_factory=list)  # device types of a sender's tensors

    def to_bytes(self) -> bytes:
        """Returns the skeleton, and the types, shapes and devices of the tensors, as bytes."""
        shapes = [[str(tensor.dtype).removeprefix("torch."), list(tensor.shape), tensor.device.type]
                  for tensor in self.tensors]
        buffer = io.BytesIO()
        torch.save([self.skeleton, shapes], buffer)
        return buffer.getvalue()

    @staticmethod
    def from_bytes(data: bytes) -> "Packed":
        """Returns a state with tensors on the "meta" device, which have no memory; allocate() creates the real ones.
        Only plain values are read, so data from a peer cannot run code."""
        skeleton, shapes = torch.load(io.BytesIO(data), weights_only=True)
        tensors = [torch.empty(shape, dtype=getattr(torch, dtype), device="meta") for dtype, shape, _ in shapes]
        return Packed(skeleton, tensors, [where for _, _, where in shapes])

    def allocate(self, device: torch.device) -> None:
        """Allocates the tensors of a state that from_bytes() returned: on the CPU if the sender has them on the CPU,
        otherwise on `device`."""
        self.tensors = [torch.empty_like(tensor, device="cpu" if where == "cpu" else device)
                        for tensor, where in zip(self.tensors, self.places)]

    def checksum(self) -> int:
        """Returns a 64-bit checksum of all tensors. Combines the CRC-32 of each tensor, which is several times as fast
        as a hash of all bytes."""
        digest = hashlib.blake2b(digest_size=8)
        for tensor in self.tensors:
            digest.update(zlib.crc32(buffer_of(tensor.contiguous().cpu())).to_bytes(4, "little"))
        return int.from_bytes(digest.digest(), "little")


def pack(value: Any) -> Packed:
    """Splits a value of nested dicts, lists and tuples into a skeleton and its tensors. Raises UserError if another rank
    could not read it."""
    packed = Packed(None)
    packed.skeleton = _take(value, packed.tensors, "the state", plain)
    return packed


def checksum_of(value: Any) -> int:
    """Returns the checksum of the value's tensors, in the order in which pack() takes them. Ignores everything else."""
    packed = Packed(None)
    _take(value, packed.tensors, "", lambda leaf, where: None)
    return packed.checksum()


def _take(value: Any, tensors: list[torch.Tensor], where: str, taken_as: Callable[[Any, str], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach())
        return {"__tensor__": len(tensors) - 1}
    if isinstance(value, Mapping):
        keys = list(value)
        if all(isinstance(key, int) for key in keys):
            keys.sort()  # optimizers' states by parameter, in the order in which the parameters first had gradients
        taken = {_take(key, tensors, where, taken_as): _take(value[key], tensors, f"{where}: {key}", taken_as) for key in keys}
        return counter_as_dict(taken) if isinstance(value, Counter) else taken
    if is_sequence(value):
        taken = [_take(item, tensors, f"{where}: {number}", taken_as) for number, item in enumerate(value)]
        return taken if isinstance(value, list) else tuple(taken)
    return taken_as(value, where)


def is_sequence(value: Any) -> bool:
    """Returns whether `value` is a list or a tuple, but not a named tuple."""
    return isinstance(value, (list, tuple)) and not hasattr(value, "_fields")


def plain(value: Any, where: str) -> Any:
    """Returns a value that torch.load(weights_only=True) reads. Raises UserError, which names the value, for any other
    type."""
    for kind in _PLAIN:
        if isinstance(value, kind):
            return value if type(value) is kind else str.__str__(value) if kind is str else kind(value)
    if isinstance(value, (torch.dtype, torch.device)):
        return value
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    raise UserError(f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which can be neither saved nor sent to "
                    "another rank; use tensors, numbers, strings, and lists, tuples without names and dicts of those")


def counter_as_dict(items: dict[Any, Any]) -> dict[str, Any]:
    """Returns what stands for a Counter with these items in a packed state and in a checkpoint, which older versions of
    torch.load(weights_only=True) do not read. The state of the scheduler MultiStepLR has one."""
    return {_COUNTER: items}


def with_counters(value: Any) -> Any:
    if isinstance(value, Mapping):
        items = {key: with_counters(item) for key, item in value.items()}
        return Counter(items[_COUNTER]) if set(items) == {_COUNTER} else items
    if isinstance(value, (list, tuple)):
        return type(value)(map(with_counters, value))
    return value


def unpack(packed: Packed) -> Any:
    return _put(packed.skeleton, packed.tensors)


def _put(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"__tensor__"}:
            return tensors[value["__tensor__"]]
        return {key: _put(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        put = [_put(item, tensors) for item in value]
        return put if isinstance(value, list) else tuple(put)
    return value
