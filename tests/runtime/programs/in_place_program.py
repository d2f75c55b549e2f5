"""A small network that trains in place: in_place_program.py STEPS. Of Ringmaster it has the three lines that a script needs."""

import sys

import torch
from torch import nn
from torch.utils.data import TensorDataset

import ringmaster as rm

torch.manual_seed(1)  # the same data and the same first weights everywhere
images = torch.randn(4096, 64)
labels = (images @ torch.randn(64, 10)).argmax(1)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

job = rm.join(model, optimizer, global_batch=96, seed=7)
for batch in job.batches(TensorDataset(images, labels), steps=int(sys.argv[1])):
    loss = nn.functional.cross_entropy(job.model(batch.x), batch.y)
    job.backward(loss, weight=len(batch))
if job.rank == 0:
    print(f"done after step {job.steps}", flush=True)
