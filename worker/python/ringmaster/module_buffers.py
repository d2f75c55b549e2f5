"""Buffers of a model's modules, which forward passes may change, and how to undo such a change."""

from __future__ import annotations

from typing import Any

import torch


class ModuleBuffers:
    """Buffers of modules and a copy of their bytes. Compares the bytes, because not every change of a buffer gives it a
    new version in torch (`buffer.data.mul_()` does not)."""

    def __init__(self, places: list[tuple[dict[str, Any], str]]):
        self._places = places  # the _buffers of each buffer's module, and its name
        self._tensors = self.now()
        self._saved: dict[torch.device, torch.Tensor] = {}

    def now(self) -> list[torch.Tensor]:
        return [of_module[name] for of_module, name in self._places]

    def remember(self) -> None:
        self._tensors = self.now()
        self._saved = _bytes_of(self._tensors)

    def changed(self) -> list[int]:
        """Returns the numbers of the buffers that have been assigned or changed since remember(). Waits for a GPU that
        has buffers."""
        now = self.now()
        if all(tensor is before for tensor, before in zip(now, self._tensors)) and all(
                torch.equal(values, self._saved[device]) for device, values in _bytes_of(now).items()):
            return []
        return [number for number, (tensor, before, copy) in enumerate(zip(now, self._tensors, self.copies()))
                if tensor is not before or not torch.equal(_bytes(tensor), _bytes(copy))]

    def copies(self) -> list[torch.Tensor]:
        """Returns new tensors with the values of the last remember()."""
        made = []
        at = dict.fromkeys(self._saved, 0)
        for tensor in self._tensors:
            begin = at[tensor.device]
            at[tensor.device] = end = begin + tensor.numel() * tensor.element_size()
            made.append(self._saved[tensor.device][begin:end].clone().view(tensor.dtype).view(tensor.shape))
        return made

    def put_back(self) -> None:
        changed = self.changed()
        copies = self.copies()
        with torch.no_grad():
            for number in changed:
                of_module, name = self._places[number]
                of_module[name] = self._tensors[number]
                self._tensors[number].copy_(copies[number])


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _bytes_of(tensors: list[torch.Tensor]) -> dict[torch.device, torch.Tensor]:
    """Returns a copy of the bytes of all tensors of each device."""
    devices: dict[torch.device, list[torch.Tensor]] = {}
    for tensor in tensors:
        devices.setdefault(tensor.device, []).append(_bytes(tensor))
    return {device: torch.cat(parts) for device, parts in devices.items()}
