"""Random schedules of faults, over and over: no step is lost or repeated, and the curve is that of an undisturbed run."""

import json
import os
import random
import tempfile
import time
import unittest

from fake_job import FakeJob

SCRIPT = """
import hashlib, os, sys, threading, time
import torch
import ringmaster as rm
from ringmaster.transport import buffer_of

steps = int(sys.argv[1])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.9)
x = torch.randn(300, 16, generator=torch.Generator().manual_seed(1))
y = (x[:, :4] * 2).argmax(1)
job = rm.join(model, optimizer, global_batch=24, micro_batch=7)
job.state["scheduler"] = scheduler
job.evaluate(lambda model, rank, size: ((model(x[rank::size]).argmax(1) == y[rank::size]).sum(), len(x[rank::size])), every=7)
job.after_step(scheduler.step)
job.after_step(lambda: print("step", job.steps + 1, repr(job._loss_of_step), flush=True))
for batch in job.batches(torch.utils.data.TensorDataset(x, y), steps=steps):
    job.backward(torch.nn.functional.cross_entropy(job.model(batch.x), batch.y))
    time.sleep(0.002)
digest = hashlib.sha256()
for values in model.state_dict().values():
    digest.update(buffer_of(values.contiguous()))
print("done", job.steps, digest.hexdigest(), scheduler.last_epoch, optimizer.param_groups[0]["lr"],
      len(os.listdir("/proc/self/fd")), threading.active_count(), flush=True)
"""
