"""The content of a checkpoint: copies of plain values and tensors, and their comparison."""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any

import torch

from .errors import listed
from .packed import counter_as_dict, is_sequence, plain
from .state import StateVersion
from .world import Epoch


def copied(value: Any, where: str = "the state") -> Any:
    """Returns a copy in CPU memory that torch.load(weights_only=True) accepts. Raises UserError, which names the value,
    for any other type."""
    return _copied(value, where, {})


def _copied(value: Any, where: str, tensors: dict[tuple, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensor = value.detach()
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        if key not in tensors or tensor.numel() == 0:
            tensors[key] = tensor.to("cpu", copy=True)
        return tensors[key]
    if isinstance(value, Mapping):
        items = {_copied(key, where, tensors): _copied(item, f"{where}: {key}", tensors) for key, item in value.items()}
        if isinstance(value, Counter):
            return counter_as_dict(items)
        if not hasattr(value, "_metadata"):
            return items
        ordered = OrderedDict(items)  # a module's state: _metadata has the versions of its parts
        ordered._metadata = value._metadata
        return ordered
    if is_sequence(value):
        made = [_copied(item, f"{where}: {number}", tensors) for number, item in enumerate(value)]
        return made if isinstance(value, list) else tuple(made)
    return plain(value, where)


def version_of(content: dict[str, Any]) -> StateVersion | None:
    """Returns the version of the state in `content`, or None if it does not contain a valid one."""
    version = content.get("version")
    keys = ("term", "number", "step", "term_base")
    if not isinstance(version, dict) or not all(isinstance(version.get(key), int) for key in keys):
        return None
    return StateVersion(Epoch(version["term"], version["number"]), version["step"])


def what_differs(theirs: str, ours: str) -> str:
    """Returns the differences between two texts with lines "name=value", or "" if there are none."""

    def values(text: str) -> dict[str, str]:
        return {name: value for name, _, value in (line.partition("=") for line in text.splitlines())}

    before, now = values(theirs), values(ours)
    names = [name for name in sorted({**before, **now}) if before.get(name) != now.get(name)]
    told = [f"{name}={before.get(name, 'nothing')} instead of {now.get(name, 'nothing')}" for name in names]
    return listed(told, 12)
