"""The update of the parameters, which the job makes once a step is certain, with what a script has called around it."""

from __future__ import annotations

from typing import Any, Callable

import torch

from .errors import UserError


class Update:
    """From now on `optimizer` makes no step by itself. `before`: called once gradients are means over the whole batch;
    `after`: once the optimizer has made its step. Thread-safety: one thread.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None):
        self.before: list[Callable[[], Any]] = []
        self.after: list[Callable[[], Any]] = []
        self._optimizer = optimizer
        self._scaler = scaler
        self._allowed = False
        optimizer.register_step_pre_hook(self._check)

    def run(self) -> None:
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
        """Training has ended: the optimizer is the script's again."""
        self._allowed = True

    def _scaled_step(self) -> bool:
        """False: gradients overflowed on some rank, so that on all of them the optimizer has made no step."""
        before = self._scaler.get_scale()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        return self._scaler.get_scale() >= before

    def _check(self, *_) -> None:
        if not self._allowed:
            raise UserError("the script called optimizer.step(), but the job updates the parameters once the step is "
                            "certain; remove the call")
