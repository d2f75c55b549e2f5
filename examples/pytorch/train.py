"""Trains a small network with DistributedDataParallel: over NCCL where PyTorch sees GPUs, else over Gloo.

Nothing here knows Ringmaster. Every start begins with the newest checkpoint in --checkpoints, however many ranks there are.
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
    """The file is there as a whole or not at all, whenever this process or its node ends."""
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
    # Nobody else notices that a rank hangs: those that wait for it so long end, and that fails or restarts the job.
    dist.init_process_group("nccl" if cuda else "gloo", timeout=datetime.timedelta(minutes=10))
    rank, size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(1)  # the same data and the same first weights everywhere
    images = torch.randn(SAMPLES, 64)
    labels = (images @ torch.randn(64, 10)).argmax(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    # Rank 0 chooses, so that all load the same one, whatever their nodes show of the folder.
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
        # The order depends on the step alone, and each rank takes its part of the batch: WORLD_SIZE may differ next time.
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(step // batches))
        first = step % batches * options.global_batch
        mine = order[first : first + options.global_batch][rank::size]
        outputs = parallel(images[mine].to(device))
        # DistributedDataParallel averages over ranks, whose parts may differ by a sample.
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
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
