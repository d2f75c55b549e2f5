"""Elastic training of any PyTorch model. A script that calls join() is a rank of a Ringmaster job.

    import ringmaster as rm

    job = rm.join(model, optimizer, global_batch=256, seed=0)
    for batch in job.batches(dataset, steps=1000):
        loss = loss_fn(job.model(batch.x), batch.y)
        job.backward(loss)

The job is a TrainingJob with spec.elasticity.mode: InPlace. Ranks may fail, leave and join at any time; the other ranks
continue in the same processes from the same step, and no step is lost or repeated. Without an agent, the script trains alone.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
from typing import TYPE_CHECKING, Any

from .agent import join_membership
from .errors import RingmasterError, UserError

if TYPE_CHECKING:
    import torch

    from .job import Job

__all__ = ["RingmasterError", "UserError", "join"]


def join(model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, global_batch: int, seed: int = 0,
         micro_batch: int | None = None, settings: str = "", timeout: float | None = None,
         state: dict[str, Any] | None = None, scaler: torch.amp.GradScaler | None = None) -> Job:
    """Joins the job: blocks, without a time limit, until this rank is in a world whose ranks have the same state.

    model: the plain module, on the device that it trains on; its parameters must not be replaced afterwards.
    optimizer: an optimizer of the model's parameters; the job calls its step().
    global_batch: number of samples in a step over all ranks; at least the maximum number of ranks of the job.
    micro_batch: maximum number of samples that are computed at once; None: a rank's share of a step when all workers are
        present, so that a rank's memory usage does not grow when workers are lost.
    settings: other settings that affect training, one "name=value" per line; they must be equal on all ranks.
    timeout: seconds until connecting a world fails; None: spec.faultTolerance.connectTimeoutSeconds of the job, or 30.
    state: other objects with state_dict() and load_state_dict(), by name (Job.state).
    scaler: the scaler of fp16 autocast, which backward() uses. If gradients overflow, the step changes only the scale,
        on all ranks. The step is counted, and its batch is not repeated.
    """
    _report_errors()
    if multiprocessing.parent_process() is not None:
        raise UserError("join() was called in a child process, which runs the script again because it has no "
                        "`if __name__ == \"__main__\":`; put the training code under one")
    from torch.nn.parallel import DistributedDataParallel

    from .job import Job

    if isinstance(model, DistributedDataParallel):
        raise UserError("join() takes the model itself, not DistributedDataParallel; remove the wrapper")
    if global_batch < 1:
        raise UserError(f"global_batch is {global_batch}; it must be the number of samples per step, at least 1")
    if micro_batch is not None and micro_batch < 1:
        raise UserError(f"micro_batch is {micro_batch}; it must be a number of samples, at least 1")
    if timeout is None:
        timeout = float(os.environ.get("RINGMASTER_CONNECT_TIMEOUT_SECONDS") or 30)
    text = f"global_batch={global_batch}\nseed={seed}\n{settings}"
    return Job(join_membership(), model, optimizer, global_batch=global_batch, seed=seed, micro_batch=micro_batch,
               settings=text, timeout=timeout, state=dict(state or {}), scaler=scaler)


def _end(error: RingmasterError) -> None:
    print(f"ringmaster: {error}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(error.exit_code)


def _report_errors() -> None:
    """Sets an exception hook: an error of this package ends the script with a one-line message and the error's exit
    code, which the launcher reads."""
    logger = logging.getLogger("ringmaster")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("ringmaster: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    before = sys.excepthook

    def report(kind, error, traceback):
        if isinstance(error, RingmasterError):
            _end(error)
        return before(kind, error, traceback)

    if getattr(before, "__module__", "") != __name__:
        sys.excepthook = report
