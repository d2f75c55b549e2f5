"""Updates the parameters once a step is complete, and calls the functions that a script registered before and after."""

from __future__ import annotations

from typing import Any, Callable

import torch

from .errors import UserError


class Update:
    """Makes the steps of `optimizer`. Raises a UserError if the script calls optimizer.step(). Calls the functions in
    `before` when the gradients are means over the whole batch, and those in `after` after the optimizer's step.
    Thread-safety: one thread.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None):
        self.before: list[Callable[[], Any]] = []
        self.after: list[Callable[[], Any]] = []
        self._optimizer = optimizer
        self._scaler = scaler
        self._allowed = False
        self._groups = self._sizes()
        optimizer.register_step_pre_hook(self._check)

    def run(self) -> None:
        if self._sizes() != self._groups:
            raise UserError(f"the optimizer's groups had {self._groups} parameters at join() and have {self._sizes()} now, so a "
                            "rank that joins later could not take over its state; add all parameters before join(), and "
                            "freeze those that train later with requires_grad_(False)")
        if self._scaler is not None and self.before:
            self._scaler.unscale_(self._optimizer)
        for function in self.before:
            function()
        self._allowed = True
        try:
            if self._scaler is None:
                self._optimizer.step()
            elif not self._scaled_step():
                return
        finally:
            self._allowed = False
        for function in self.after:
            function()

    def close(self) -> None:
        """Allows the script to call optimizer.step() after training."""
        self._allowed = True

    def _sizes(self) -> list[int]:
        return [len(group["params"]) for group in self._optimizer.param_groups]

    def _scaled_step(self) -> bool:
        """Makes a step with scaled gradients. If gradients overflowed, makes no step and returns False on all ranks."""
        before = self._scaler.get_scale()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        return self._scaler.get_scale() >= before

    def _check(self, *_) -> None:
        if not self._allowed:
            raise UserError("the script called optimizer.step(), but the job updates the parameters itself; "
                            "remove the call")


def settings_of(optimizer: torch.optim.Optimizer) -> str:
    """Returns the numbers in the optimizer's groups, such as learning rates, one per line. Rounds them, and takes those
    below a millionth of the first learning rate as 0, because the last bits of a cosine may differ between kinds of
    nodes. Numbers on a GPU are omitted, because reading them takes long."""
    lines = []
    for number, group in enumerate(optimizer.param_groups):
        least = 1e-6 * float(group.get("initial_lr", 0))
        for name, value in sorted(group.items()):
            values = value if isinstance(value, (list, tuple)) else [value]
            if name != "params" and values and all(map(_is_number, values)):
                rounded = ", ".join(f"{float(one):.4g}" if abs(one) >= least else "0" for one in values)
                lines.append(f"{name} {rounded} in group {number} of the optimizer")
    return "\n".join(lines)


def _is_number(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.numel() == 1 and value.device.type == "cpu"
    return isinstance(value, (int, float)) and not isinstance(value, bool)
