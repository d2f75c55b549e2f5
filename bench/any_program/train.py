"""Trains a tiny network with DistributedDataParallel over Gloo under torchrun, like a user's script.

After each start it loads the newest checkpoint. Rank 0 adds a line to --steps for each step: the time of the start, the step, the
number of ranks, and the time at which the step was completed. Times are seconds of the monotonic clock.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SAMPLES, BATCH = 4096, 16


def save(path, state):
    """Writes the file atomically."""
    with open(path + ".new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True, help="file that all ranks can access")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--steps", required=True, help="a file")
    options = parser.parse_args()

    began = time.monotonic()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(1)  # all ranks have the same data and the same initial weights
    images = torch.randn(SAMPLES, 64)
    labels = (images @ torch.randn(64, 10)).argmax(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = 0
    if os.path.exists(options.checkpoint):
        state = torch.load(options.checkpoint)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]

    log = open(options.steps, "a", buffering=1) if rank == 0 else None
    while True:
        batch = torch.randint(SAMPLES, (BATCH,), generator=torch.Generator().manual_seed(step * ranks + rank))
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if rank == 0:
            log.write(f"{began:.3f} {step} {ranks} {time.monotonic():.3f}\n")
            if step % options.every == 0:
                save(options.checkpoint, {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step})


if __name__ == "__main__":
    main()
