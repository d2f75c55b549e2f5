"""The log of steps, which rank 0 writes to standard output, one JSON object per line, and passes to callbacks.

The fields are the script's metrics and those fields of the trainer's step log (worker/trainer/telemetry/step_log.h)
that are available in Python. When rank 0 is lost, the new rank 0 continues the log on its own standard output.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from .errors import UserError
from .world import Epoch, Progress, World

Callback = Callable[[int, dict[str, float]], None]
_OWN = ("step", "loss", "samples_per_second", "world_size", "world_epoch")


class StepLog:
    """Writes every `every_steps`-th step or, if `every_steps` is 0, one step per `every_s` seconds. Also writes the
    first step of each world."""

    def __init__(
        self,
        every_steps: int = 0,
        every_s: float = 1.0,
        *,
        out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """`out` is the file to write to; None: the current standard output."""
        self._every_steps, self._every_s = every_steps, every_s
        self._out, self._clock = out, clock
        self._callbacks: list[Callback] = []
        self._metrics: dict[str, float] = {}
        self._world: Epoch | None = None
        self._written = -math.inf

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Adds metrics to the current step; the newest value of each name is kept. Raises UserError if a metric is not
        a number or has a name that the log uses itself."""
        for name, value in metrics.items():
            if name in _OWN:
                raise UserError(f"log() was given {name!r}, which the step log uses itself; choose another name")
            try:
                self._metrics[name] = float(value)
            except (TypeError, ValueError) as error:
                raise UserError(f"log() was given {name}={value!r}, which is not a number") from error

    def add_callback(self, callback: Callback) -> None:
        """Registers `callback(step, metrics)` for each step that is written. An exception of the callback ends
        training."""
        self._callbacks.append(callback)

    def applied(self, progress: Progress, world: World) -> None:
        """Writes an applied step, if it is due. Otherwise, keeps the step's metrics for the next line."""
        now = self._clock()
        if not self._due(progress.step, world.epoch, now):
            return
        metrics = {"loss": progress.loss, "samples_per_second": progress.samples_per_second, **self._metrics}
        self._metrics = {}
        line: dict[str, Any] = {"step": progress.step}
        line |= {name: _number(value, name) for name, value in metrics.items()}
        line |= {"world_size": world.size, "world_epoch": list(world.epoch)}
        print(json.dumps(line, separators=(",", ":")), file=self._out or sys.stdout, flush=True)
        for callback in self._callbacks:
            callback(progress.step, {**metrics, "world_size": float(world.size)})

    def _due(self, step: int, world: Epoch, now: float) -> bool:
        first = self._world != world
        self._world = world
        due = step % self._every_steps == 0 if self._every_steps > 0 else now - self._written >= self._every_s
        if first or due:
            self._written = now
        return first or due


def _number(value: float, name: str) -> float | None:
    """Returns the value for JSON: rounded, or None for NaN and infinity, which JSON cannot represent."""
    if not math.isfinite(value):
        return None
    return round(value, 1) if name == "samples_per_second" else float(f"{value:.9g}")


def tensorboard(writer: Any) -> Callback:
    """Returns a callback that writes the metrics to a SummaryWriter."""

    def write(step: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)

    return write


def mlflow(client: Any) -> Callback:
    """Returns a callback that calls log_metrics() of `client`: the module mlflow, in which a run must be started, or an
    object with the same function."""
    return lambda step, metrics: client.log_metrics(metrics, step=step)


def wandb(run: Any) -> Callback:
    """Returns a callback that logs the metrics to a run of wandb."""
    return lambda step, metrics: run.log(metrics, step=step)
