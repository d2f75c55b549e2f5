"""Trains a small network with DistributedDataParallel: over NCCL if PyTorch sees GPUs, otherwise over Gloo.

The script does not use Ringmaster. At each start, it resumes from the newest checkpoint in --checkpoints, with any number of ranks.
"""

import argparse
import datetime
import glob
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SAMPLES = 4096


def save(path, state):
    """Writes the file atomically: if this process or its node fails, the file is complete or missing."""
    with open(path + ".new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoints", required=True, help="a folder that all workers share")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints")
    parser.add_argument("--global-batch", type=int, default=256, help="samples per step, over all ranks")
    options = parser.parse_args()

    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    # With this timeout, ranks that wait for a hanging rank end, and the job fails or restarts. Nothing else detects the hang.
    dist.init_process_group("nccl" if cuda else "gloo", timeout=datetime.timedelta(minutes=10))
    rank, size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(1)  # all ranks have the same data and the same initial weights
    images = torch.randn(SAMPLES, 64)
    labels = (images @ torch.randn(64, 10)).argmax(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    # Rank 0 chooses the checkpoint, so that all ranks load the same one even if their nodes list different files.
    os.makedirs(options.checkpoints, exist_ok=True)
    found = sorted(glob.glob(f"{options.checkpoints}/step-*.pt"))
    newest = torch.tensor([int(found[-1][-11:-3]) if found else 0], device=device)
    dist.broadcast(newest, src=0)
    step = int(newest)
    if step > 0:
        state = torch.load(f"{options.checkpoints}/step-{step:08}.pt", map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    if rank == 0:
        print(f"{size} ranks on {device.type} begin after step {step}", flush=True)

    parallel = DistributedDataParallel(model)
    batches = SAMPLES // options.global_batch
    while step < options.steps:
        # The order depends only on the step, and each rank takes its part of the batch: WORLD_SIZE may change at a restart.
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(step // batches))
        first = step % batches * options.global_batch
        mine = order[first : first + options.global_batch][rank::size]
        outputs = parallel(images[mine].to(device))
        # DistributedDataParallel averages over ranks, whose parts of the batch may differ by one sample.
        loss = nn.functional.cross_entropy(outputs, labels[mine].to(device), reduction="sum") * size / options.global_batch
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if rank == 0 and (step % options.every == 0 or step == options.steps):
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
            save(f"{options.checkpoints}/step-{step:08}.pt", {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
            for old in sorted(glob.glob(f"{options.checkpoints}/step-*.pt"))[:-2]:
                os.remove(old)
    # Without the barrier, a thread of Gloo may still hold a gradient when Python ends, which aborts the process (pytorch#190489).
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
