"""Buffers of a model's modules, which forward passes may change, and how to undo such a change."""

from __future__ import annotations

from typing import Any

import torch


class ModuleBuffers:
    """Buffers of modules and copies of their values. Compares the values, because not every change of a buffer gives it a
    new version in torch (`buffer.data.mul_()` does not)."""

    def __init__(self, places: list[tuple[dict[str, Any], str]]):
        self._places = places  # the _buffers of each buffer's module, and its name
        self._tensors = self.now()
        self.copies = [torch.empty_like(tensor) for tensor in self._tensors]  # the values at the last remember()

    def now(self) -> list[torch.Tensor]:
        return [of_module[name] for of_module, name in self._places]

    def remember(self) -> None:
        self._tensors = self.now()
        for number, (tensor, copy) in enumerate(zip(self._tensors, self.copies)):
            if (copy.shape, copy.dtype, copy.device) != (tensor.shape, tensor.dtype, tensor.device):
                self.copies[number] = copy = torch.empty_like(tensor)
            copy.copy_(tensor.detach())

    def changed(self) -> list[int]:
        """Returns the numbers of the buffers that have been assigned or changed since remember(). Waits for a GPU that
        has buffers."""
        return [number for number, (tensor, before, copy) in enumerate(zip(self.now(), self._tensors, self.copies))
                if tensor is not before or not torch.equal(_bytes(tensor), _bytes(copy))]

    def put_back(self) -> None:
        with torch.no_grad():
            for number in self.changed():
                of_module, name = self._places[number]
                of_module[name] = self._tensors[number]
                self._tensors[number].copy_(self.copies[number])


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the bytes of a tensor, which show that a NaN has not changed."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
