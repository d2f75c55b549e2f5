"""A training script that uses PyTorch's DistributedDataParallel on CPUs, with torchrun or without. Continues from its
last checkpoint."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint", required=True, help="a file that all ranks see")
parser.add_argument("--every", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--until", required=True, help="a file: the program does not end before somebody makes it")
options = parser.parse_args()

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
truth = torch.randn(16, 4)
model = nn.Linear(16, 4)
step = 0
if os.path.exists(options.checkpoint):
    state = torch.load(options.checkpoint)
    model.load_state_dict(state["model"])
    step = state["step"]
network = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
if rank == 0:
    print(f"{ranks} ranks begin after step {step}", flush=True)
while step < options.steps:
    images = torch.randn(16, 16, generator=torch.Generator().manual_seed(step * ranks + rank))
    optimizer.zero_grad()
    nn.functional.cross_entropy(network(images), (images @ truth).argmax(1)).backward()
    optimizer.step()
    step += 1
    if step % options.every == 0 and rank == 0:
        torch.save({"model": model.state_dict(), "step": step}, options.checkpoint + ".new")
        os.replace(options.checkpoint + ".new", options.checkpoint)
while not os.path.exists(options.until):
    time.sleep(0.05)
if rank == 0:
    print(f"done after step {step}", flush=True)
dist.destroy_process_group()
