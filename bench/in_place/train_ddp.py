"""Trains as train.py does, but with DistributedDataParallel under torchrun, which restarts from a checkpoint.

Rank 0 adds a line to --steps for each step: the time of this start, the step, the number of ranks, and the time at which the step was
completed. Times are seconds of the monotonic clock.
"""

import argparse
import os
import time

import network
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True, help="file that all ranks can access")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--steps", required=True, help="a file")
    options = parser.parse_args()

    torch.set_num_threads(1)
    began = time.monotonic()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inner = network.network()
    model, optimizer = DistributedDataParallel(inner), network.optimizer_of(inner)
    dataset = network.dataset()
    sampler = torch.utils.data.DistributedSampler(dataset, ranks, rank, seed=1)
    batches = torch.utils.data.DataLoader(dataset, network.GLOBAL_BATCH // ranks, sampler=sampler, drop_last=True)
    step = 0
    if os.path.exists(options.checkpoint):
        saved = torch.load(options.checkpoint)
        inner.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]

    log = open(options.steps, "a", buffering=1) if rank == 0 else None
    while True:
        sampler.set_epoch(step // len(batches))
        for x, y in batches:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if rank == 0:
                log.write(f"{began:.3f} {step} {ranks} {time.monotonic():.4f}\n")
                if step % options.every == 0:
                    network.save(
                        options.checkpoint, {"model": inner.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                    )


if __name__ == "__main__":
    main()
