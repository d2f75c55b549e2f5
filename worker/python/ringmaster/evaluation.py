"""Evaluations of a model over all ranks, at intervals that the script sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import torch

from .transport import Communicator
from .world import Epoch


@dataclass
class Evaluation:
    """An evaluation. `function(model, rank, world_size)` returns the sum and the count of a value over this rank's part
    of the data."""

    function: Callable[[torch.nn.Module, int, int], tuple[float, float]]
    every: int  # interval in steps
    name: str
    _last: tuple[Epoch, int] | None = None  # the epoch and the step of the last evaluation

    def run_if_due(self, model: torch.nn.Module, communicator: Communicator, step: int, last: bool) -> dict[str, float]:
        """Runs the evaluation after `step` if it is due or `step` is the `last`, but once in a world. Returns the mean
        over all ranks by its name, on every rank; empty if it did not run. Raises WorldOver if the world ended."""
        this = (communicator.world.epoch, step)
        if step == 0 or this == self._last or not (last or step % self.every == 0):
            return {}
        mean = self._run(model, communicator)
        self._last = this
        return {self.name: mean}

    def _run(self, model: torch.nn.Module, communicator: Communicator) -> float:
        modes = [(module, module.training) for module in model.modules()]  # a script may keep some in evaluation mode
        model.eval()
        try:
            with torch.no_grad():
                total, count = self.function(model, communicator.rank, communicator.size)
        finally:
            for module, training in modes:
                if module.training != training:
                    module.train(training)  # which a module may override: layers of LoRA undo what they did in eval()
            for module, training in modes:
                module.training = training  # train() has changed the children, some of which differ from their parents
        sums = torch.tensor([float(total), float(count)], dtype=torch.float64, device=communicator.device)
        communicator.all_reduce(sums).wait()
        return (sums[0] / sums[1]).item()
