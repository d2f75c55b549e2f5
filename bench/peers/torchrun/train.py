"""Trains as ringmaster-train --workload=mnist does, but with DistributedDataParallel over Gloo, one thread per rank,
under torchrun. Writes a checkpoint after a fixed number of steps, from which a restarted group continues.

Rank 0 appends a line (seconds, step) to FOLDER/progress-RESTARTS for each step, and each rank writes its process ID to
FOLDER/rank-N. Trains until it is killed or the torchrun that started it ends.
"""

import argparse
import ctypes
import os
import signal
import time

PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # before torch, whose import takes seconds
if "CPU_GROUPS" in os.environ:  # control groups, one a rank; its import counts, too
    with open(f"{os.environ['CPU_GROUPS']}{os.environ['LOCAL_RANK']}/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))

import torch
import torch.distributed as dist
from networks import Mnist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--global-batch", type=int, required=True)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--checkpoint-every", type=int, required=True)
    parser.add_argument("--tuned", action="store_true", help="what costs a user nothing: as throughput.py's")
    options = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    with open(f"{options.folder}/rank-{rank}.new", "w") as file:
        file.write(str(os.getpid()))
    os.replace(f"{options.folder}/rank-{rank}.new", f"{options.folder}/rank-{rank}")

    torch.manual_seed(7)
    images = torch.randint(0, 256, (options.samples, 1, 28, 28), dtype=torch.uint8)
    labels = torch.randint(0, 10, (options.samples,))
    tuning = {"gradient_as_bucket_view": True, "static_graph": True, "forward_sync_buffers": False} if options.tuned else {}
    model = DistributedDataParallel(Mnist(), **tuning)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, fused=options.tuned)

    checkpoint = f"{options.folder}/checkpoint"
    step = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    if rank == 0:
        progress = open(f"{options.folder}/progress-{os.environ['TORCHELASTIC_RESTART_COUNT']}", "w", buffering=1)

    share = range(rank * options.global_batch // size, (rank + 1) * options.global_batch // size)
    order, epoch = None, -1
    steps_per_epoch = options.samples // options.global_batch
    while True:
        if step // steps_per_epoch != epoch:
            epoch = step // steps_per_epoch
            order = torch.randperm(options.samples, generator=torch.Generator().manual_seed(epoch))
        begin = step % steps_per_epoch * options.global_batch
        batch = order[begin + share.start : begin + share.stop]
        pixels = (images[batch].float() / 255 - 0.1307) / 0.3081
        optimizer.zero_grad()
        F.nll_loss(model(pixels), labels[batch]).backward()
        optimizer.step()
        step += 1
        if rank == 0:
            progress.write(f"{time.monotonic():.4f} {step}\n")
            if step % options.checkpoint_every == 0:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                torch.save(state, checkpoint + ".new")
                os.replace(checkpoint + ".new", checkpoint)


if __name__ == "__main__":
    main()
