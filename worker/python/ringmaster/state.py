"""The state of a rank: parameters, buffers, optimizer, and other objects of the script.

`TrainingState` can be compared, sent to another rank and restored. `LocalState` determines which of two states is newer,
by the same rules as worker/trainer/elastic/state_version.h.
"""

from __future__ import annotations

import copy
import math
from collections import UserDict
from dataclasses import dataclass, field, replace
from typing import Any, Iterator, Mapping, NamedTuple

import torch

from .errors import UserError
from .module_buffers import ModuleBuffers
from .packed import checksum_of, pack, with_counters
from .world import Epoch

# Limit of the optimizer's state and job.state together: _TIMES_MODEL times the model's bytes plus _MORE_BYTES.
_TIMES_MODEL = 16
_MORE_BYTES = 4 << 30

ORIGINS = ("start", "checkpoint", "snapshot", "training", "other")


class StateVersion(NamedTuple):
    """The last applied step and the epoch that computed it. A step of a higher epoch is newer than any step of a lower
    epoch."""

    epoch: Epoch = Epoch()
    step: int = 0


@dataclass(frozen=True)
class LocalState:
    """The version and origin (`ORIGINS`) of a rank's state, and whether training ends with it."""

    version: StateVersion = StateVersion()
    term_base: int = 0  # added to a world's term, so that a resumed run's versions are above all earlier ones
    origin: str = "start"
    finishing: bool = False  # a rank that has this state has called finish()
    loss: float = field(default=math.nan, compare=False)  # the mean loss of the last step; checkpoints do not contain it

    def next(self, epoch: Epoch) -> "LocalState":
        """Returns the state after one more step in a world of `epoch`."""
        version = StateVersion(Epoch(self.term_base + epoch.term, epoch.number), self.version.step + 1)
        return replace(self, version=version, origin="training", finishing=False)

    def epoch_of_run(self) -> Epoch:
        """Returns the epoch of this run that computed the state, or an epoch of term 0 if another run computed it."""
        return Epoch(self.version.epoch.term - self.term_base, self.version.epoch.number)

    def trained_here(self) -> bool:
        """Returns whether this run has computed a step of the state."""
        return self.version.step > 0 and self.epoch_of_run().term > 0

    def sort_key(self) -> tuple:
        """Returns the sort key. Ranks adopt the state with the highest key: of one version, the state of a rank that has
        trained since it started."""
        if self.version == StateVersion():
            return (0, self.version)
        return (1 if self.origin == "other" else 2, self.version, self.origin == "training")


def _named(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the tensors in nested dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (Mapping, list, tuple)):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _named(item, f"{name}[{key!r}]")


def first_difference(theirs: Mapping[str, Any], ours: Mapping[str, torch.Tensor]) -> str:
    """Returns the first difference between two models, in the order of this rank's model, or "" if there is none."""
    for name, tensor in ours.items():
        if name not in theirs:
            return f"it has no {name}"
        if not isinstance(tensor, torch.Tensor):
            continue
        if not isinstance(theirs[name], torch.Tensor) or theirs[name].shape != tensor.shape:
            shape = list(getattr(theirs[name], "shape", []))
            return f"its {name} has the shape {shape} instead of {list(tensor.shape)}"
    extra = next((name for name in theirs if name not in ours), None)
    return "" if extra is None else f"it has {extra}, which this model does not have"


class TrainingState:
    """The model, optimizer and extras of this rank. Thread-safety: one thread."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, extras: "Extras"):
        self.model = model
        self.optimizer = optimizer
        self.extras = extras
        norms: list[tuple[dict[str, Any], str]] = []
        others: list[tuple[dict[str, Any], str]] = []
        for module in model.modules():
            kept = norms if isinstance(module, torch.nn.modules.batchnorm._NormBase) else others
            kept += [(module._buffers, name) for name, buffer in module._buffers.items() if buffer is not None]
        self._norms, self._others = ModuleBuffers(norms), ModuleBuffers(others)
        self._parameters = list(model.named_parameters())  # each step uses it, and listing them walks all modules
        self._undo: tuple[list[dict[str, Any]], dict[str, Any], list[str]] | None = None
        self._can_be_sent = False  # whether another rank can read the optimizer's state

    def describe(self) -> str:
        """Returns text with a line for each tensor of the model's state and one for the optimizer's groups. The text must
        be equal on all ranks."""
        kept = self.model.state_dict()  # without buffers that are not persistent
        lines = [f"{kind} {name} {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
                 for kind, tensors in (("parameter", self.model.named_parameters()), ("buffer", self.model.named_buffers()))
                 for name, tensor in tensors if kind == "parameter" or name in kept]
        groups = [len(group["params"]) for group in self.optimizer.param_groups]
        lines.append(f"optimizer {type(self.optimizer).__name__} with {groups} parameters")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Returns the whole state, as checkpoints contain it. Within an uncommitted step, returns the state before the
        step."""
        extras = {name: part.state_dict() for name, part in self.extras.items()}
        optimizer = self.optimizer.state_dict()
        copies: dict[int, torch.Tensor] = {}
        if self._undo is not None:
            groups, before, _ = self._undo
            extras.update(before)
            optimizer["param_groups"] = [{**group, **values} for group, values in zip(optimizer["param_groups"], groups)]
            copies = {id(values): copy for buffers in (self._norms, self._others)
                      for values, copy in zip(buffers.now(), buffers.copies)}
        model = {name: copies.get(id(values), values) for name, values in self.model.state_dict(keep_vars=True).items()}
        model = {name: values.detach() if isinstance(values, torch.Tensor) else values for name, values in model.items()}
        return {"model": model, "optimizer": optimizer, "extras": {**self.extras.unclaimed, **extras}}

    def check_fits(self, state: dict[str, Any]) -> None:
        """Checks what as_dict() returned on another rank, before memory is allocated for it. Raises UserError if the
        model's tensors differ from this rank's, or if the other tensors exceed the limit."""
        ours = self.model.state_dict()
        difference = first_difference(state["model"], ours) or next(
            (f"its {name} is {state['model'][name].dtype} instead of {tensor.dtype}" for name, tensor in ours.items()
             if isinstance(tensor, torch.Tensor) and state["model"][name].dtype != tensor.dtype), "")
        if difference:
            raise UserError(f"the state of another rank does not fit this model: {difference}; run the same script on every "
                            "rank")
        limit = _TIMES_MODEL * sum(tensor.nbytes for tensor in ours.values() if isinstance(tensor, torch.Tensor)) + _MORE_BYTES
        total = 0
        for name, tensor in (*_named(state["optimizer"], "optimizer"), *_named(state["extras"], "job.state")):
            total += tensor.nbytes
            if total > limit:
                raise UserError(f"the optimizer's state and job.state are larger than {limit} bytes ({_TIMES_MODEL} times the "
                                f"model and {_MORE_BYTES >> 30} GiB) with {name}, {tensor.dtype} {list(tensor.shape)}; keep "
                                "less in job.state")

    def load(self, state: dict[str, Any]) -> None:
        """Restores the result of as_dict() of this or another rank. Raises UserError if the state does not fit."""
        self._undo = None
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            _keep_types(self.model, self.optimizer, state)
        except (RuntimeError, ValueError, KeyError) as error:
            raise UserError(f"the state does not fit this model and optimizer: {error}") from error
        self.extras.load(state["extras"], self.optimizer)

    def frozen(self) -> list[str]:
        """Returns the names of the parameters that do not train now."""
        return [name for name, parameter in self._parameters if not parameter.requires_grad]

    def freeze(self, names: list[str]) -> None:
        """Freezes these parameters and no others. A rank that joins has not run what froze or unfroze them earlier."""
        if names != self.frozen():
            for name, parameter in self._parameters:
                parameter.requires_grad_(name not in names)

    def checksum(self) -> int:
        """Returns a checksum of the state of model and optimizer, which must be equal on all ranks."""
        return checksum_of([self.model.state_dict(), self.optimizer.state_dict()])

    # --- undoing a step that is discarded

    def remember(self) -> None:
        """Call at the start of a step. Saves the values that the script may change before the step is committed."""
        self._norms.remember()
        self._others.remember()
        extras = {name: copy.deepcopy(part.state_dict()) for name, part in self.extras.items()}
        groups = _values_of(self.optimizer)
        pack({"optimizer's groups": groups, "job.state": extras})  # raises UserError if a rank that joins could not read them
        if not self._can_be_sent and self.optimizer.state:
            pack({"optimizer": self.optimizer.state_dict()["state"]})
            self._can_be_sent = True
        self._undo = (groups, extras, self.frozen())

    def put_back(self) -> None:
        """Discards the step: restores buffers, the optimizer's settings, extras and what is frozen to what remember()
        saved."""
        if self._undo is None:
            return
        groups, extras, frozen = self._undo
        self._undo = None
        self._norms.put_back()
        self._others.put_back()
        for name, state in extras.items():
            self.extras[name].load_state_dict(state)
        _set_values(self.optimizer, groups)
        self.freeze(frozen)

    def certain(self) -> None:
        """Makes the applied step permanent: put_back() can no longer undo it. Call after applying a step."""
        self._undo = None

    # --- buffers, which each rank's forward passes change with different samples

    def statistics(self, weight: float, first: bool) -> torch.Tensor | None:
        """Returns the running averages of normalisation layers times `weight`, to be summed over all ranks, or None if
        there are none. Counts are taken only from the rank for which `first` is True."""
        parts = [values.detach().reshape(-1).double() * (weight if values.is_floating_point() else float(first))
                 for values in self._norms.now()]
        return torch.cat(parts) if parts else None

    def put_statistics(self, sums: torch.Tensor, weights: float) -> None:
        at = 0
        for values in self._norms.now():
            part = sums[at:at + values.numel()].view(values.shape)
            values.copy_(part / weights if values.is_floating_point() else part)
            at += values.numel()

    def changed_buffers(self) -> list[int]:
        """Returns the numbers of the buffers, except running averages, that have changed since remember()."""
        return self._others.changed()

    def other_buffers(self) -> list[torch.Tensor]:
        return self._others.now()


class Extras(UserDict):
    """Other objects with state_dict() and load_state_dict(), by name (Job.state). If a script adds an object after the
    state was received or loaded, the object's part of the state is loaded immediately."""

    def __init__(self, parts: Mapping[str, Any]):
        self.unclaimed: dict[str, Any] = {}
        self._optimizer: torch.optim.Optimizer | None = None
        self._values: list[dict[str, Any]] = []
        super().__init__(parts)

    def __setitem__(self, name: str, part: Any) -> None:
        _check_part(name, part)
        super().__setitem__(name, part)
        if name in self.unclaimed:
            part.load_state_dict(with_counters(self.unclaimed.pop(name)))
            _set_values(self._optimizer, self._values)  # a scheduler changes them when it is created

    def __ior__(self, parts: Any) -> Extras:
        self.update(parts)  # UserDict's own |= does not call __setitem__()
        return self

    def load(self, state: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> None:
        self.unclaimed = {name: part for name, part in state.items() if name not in self}
        for name, part in self.items():
            if name in state:
                part.load_state_dict(with_counters(state[name]))
        self._optimizer = optimizer
        self._values = _values_of(optimizer)


def _check_part(name: str, part: Any) -> None:
    if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
        raise UserError(f"job.state[{name!r}] is a {type(part).__name__}, without state_dict() and load_state_dict(); keep "
                        "numbers and tensors in an object that has both")


def _values_of(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Returns the settings of each group of the optimizer, such as the learning rate."""
    return [{key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in group.items()
             if key != "params"} for group in optimizer.param_groups]


def _set_values(optimizer: torch.optim.Optimizer, values: list[dict[str, Any]]) -> None:
    for group, before in zip(optimizer.param_groups, values):
        for key, value in before.items():
            if isinstance(value, torch.Tensor) and isinstance(group.get(key), torch.Tensor):
                group[key].copy_(value)
            else:
                group[key] = value


def _keep_types(model: torch.nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Gives the tensors of a loaded optimizer's state the types that they were saved with: torch converts them to the
    types of their parameters, and so rounds what an optimizer keeps in float32 for bfloat16 parameters. A tensor that was
    saved with the type of its parameter remains converted, because the parameter may now have another type."""
    saved = state["optimizer"]
    names = {parameter: name for name, parameter in model.named_parameters()}
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in zip(numbers, parameters):
        if number in saved["state"]:
            of_parameter = getattr(state["model"].get(names.get(parameter)), "dtype", None)
            optimizer.state[parameter] = _typed(optimizer.state[parameter], saved["state"][number], of_parameter)


def _typed(loaded: Any, saved: Any, of_parameter: torch.dtype | None) -> Any:
    if isinstance(loaded, torch.Tensor) and isinstance(saved, torch.Tensor):
        return loaded if saved.dtype in (loaded.dtype, of_parameter) else saved.to(loaded.device, copy=True)
    if isinstance(loaded, dict) and isinstance(saved, Mapping):
        return {key: _typed(item, saved.get(key), of_parameter) for key, item in loaded.items()}
    if isinstance(loaded, (list, tuple)) and isinstance(saved, (list, tuple)) and len(loaded) == len(saved):
        return type(loaded)(_typed(*both, of_parameter) for both in zip(loaded, saved))
    return loaded


def check_optimizer(optimizer: torch.optim.Optimizer, named: list[tuple[str, torch.nn.Parameter]]) -> None:
    """Raises UserError if the job cannot make a step with the optimizer."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise UserError("LBFGS computes the loss several times per step; use an optimizer that needs gradients once")
    known = {parameter for _, parameter in named}
    for number, group in enumerate(optimizer.param_groups):
        if any(parameter not in known for parameter in group["params"]):
            raise UserError(f"group {number} of the optimizer has parameters that the model does not have; pass join() one module "
                            "that has all of them")
