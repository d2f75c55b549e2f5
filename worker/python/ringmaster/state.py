"""What a rank holds: parameters, buffers, optimizer, and whatever else the script handed over.

`TrainingState` reads it as a skeleton (nested dicts and lists, numbers, strings) and a list of tensors, so that it can be
compared, sent to another rank and put back. Which of two states is the newer one, `LocalState` says; the rules are those
of worker/trainer/elastic/state_version.h.
"""

from __future__ import annotations

import copy
import hashlib
import io
from dataclasses import dataclass, field, replace
from typing import Any, Mapping, NamedTuple

import torch

from .errors import UserError
from .transport import buffer_of
from .world import Epoch

ORIGINS = ("start", "checkpoint", "snapshot", "training", "other")


class StateVersion(NamedTuple):
    """The last applied step and the epoch that computed it. A step of a higher epoch wins over any of a lower one."""

    epoch: Epoch = Epoch()
    step: int = 0


@dataclass(frozen=True)
class LocalState:
    """Which state a rank holds, and where it has it from (`ORIGINS`)."""

    version: StateVersion = StateVersion()
    term_base: int = 0  # added to the term of a world's epoch: a resumed run's versions are above all earlier ones
    origin: str = "start"

    def next(self, epoch: Epoch) -> "LocalState":
        """After one more step, in a world of `epoch`."""
        version = StateVersion(Epoch(self.term_base + epoch.term, epoch.number), self.version.step + 1)
        return replace(self, version=version, origin="training")

    def epoch_of_run(self) -> Epoch:
        """The epoch of this run that computed the state; of term 0 if another run did."""
        return Epoch(self.version.epoch.term - self.term_base, self.version.epoch.number)

    def sort_key(self) -> tuple:
        """Of two states the one with the higher key is taken over."""
        if self.version == StateVersion():
            return (0, self.version)
        return (1 if self.origin == "other" else 2, self.version)


@dataclass
class Packed:
    """A state as it travels: `tensors` are detached and on their own devices; they alias the state."""

    skeleton: Any
    tensors: list[torch.Tensor] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        """The skeleton with the shapes of its tensors."""
        shapes = [[str(tensor.dtype).removeprefix("torch."), list(tensor.shape), tensor.device.type]
                  for tensor in self.tensors]
        buffer = io.BytesIO()
        torch.save([self.skeleton, shapes], buffer)
        return buffer.getvalue()

    @staticmethod
    def from_bytes(data: bytes, device: torch.device) -> "Packed":
        """With new tensors to receive into. It reads plain values alone: what a peer sends cannot run code."""
        skeleton, shapes = torch.load(io.BytesIO(data), weights_only=True)
        tensors = [torch.empty(shape, dtype=getattr(torch, dtype), device="cpu" if where == "cpu" else device)
                   for dtype, shape, where in shapes]
        return Packed(skeleton, tensors)

    def checksum(self) -> int:
        """64 bits over the bytes of all tensors."""
        digest = hashlib.blake2b(digest_size=8)
        for tensor in self.tensors:
            digest.update(buffer_of(tensor.contiguous().cpu()))
        return int.from_bytes(digest.digest(), "little")


def pack(value: Any) -> Packed:
    """Takes the tensors out of nested dicts, lists and tuples."""
    packed = Packed(None)
    packed.skeleton = _take(value, packed.tensors)
    return packed


def _take(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach())
        return {"__tensor__": len(tensors) - 1}
    if isinstance(value, Mapping):
        keys = list(value)
        if all(isinstance(key, int) for key in keys):
            keys.sort()  # of optimizers: parameters' numbers, in the order in which they first had gradients
        return {key: _take(value[key], tensors) for key in keys}
    if isinstance(value, (list, tuple)):
        taken = [_take(item, tensors) for item in value]
        return taken if isinstance(value, list) else tuple(taken)
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


class TrainingState:
    """Model, optimizer and extras of this rank. Thread-safety: one thread."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, extras: dict[str, Any]):
        self.model = model
        self.optimizer = optimizer
        self.extras = extras  # shared with the job, which adds to it
        self._undo: tuple[list[tuple[torch.Tensor, torch.Tensor]], dict[str, Any]] | None = None

    def describe(self) -> str:
        """A line for each tensor of the model and each group of the optimizer: ranks must agree in it."""
        lines = [f"{kind} {name} {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
                 for kind, tensors in (("parameter", self.model.named_parameters()), ("buffer", self.model.named_buffers()))
                 for name, tensor in tensors]
        groups = [len(group["params"]) for group in self.optimizer.param_groups]
        lines.append(f"optimizer {type(self.optimizer).__name__} with {groups} parameters")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Everything, as checkpoints keep it."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                "extras": {name: part.state_dict() for name, part in self.extras.items()}}

    def load(self, state: dict[str, Any]) -> None:
        """Puts back what as_dict() gave, on this rank or another one. Raises UserError for a state that does not fit."""
        self._undo = None
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError, KeyError) as error:
            raise UserError(f"the state does not fit this model and optimizer: {error}") from error
        for name, part in self.extras.items():
            if name in state["extras"]:
                part.load_state_dict(state["extras"][name])

    def checksum(self) -> int:
        """Of model and optimizer: what all ranks must have alike."""
        return pack([self.model.state_dict(), self.optimizer.state_dict()]).checksum()

    # --- a step that does not happen

    def remember(self) -> None:
        """At the begin of a step: what the script's own code may change before the step is certain."""
        buffers = [(buffer, buffer.detach().clone()) for buffer in self.model.buffers()]
        self._undo = (buffers, {name: copy.deepcopy(part.state_dict()) for name, part in self.extras.items()})

    def put_back(self) -> None:
        """The step did not happen: buffers and extras are as remember() found them."""
        if self._undo is None:
            return
        buffers, extras = self._undo
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        for name, state in extras.items():
            self.extras[name].load_state_dict(state)
        self._undo = None
