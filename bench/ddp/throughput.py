"""Samples a second of PyTorch DistributedDataParallel on the network of train.py: the reference of figure B13.

Starts torchrun with one thread a rank, trains a few steps to warm up and then so many, and prints one JSON object.
"""

import argparse
import json
import os
import subprocess
import sys
import time

WARM_UP = 10


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--global-batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--samples", type=int, default=8192)
    return parser.parse_args()


def start_ranks(options):
    command = [
        sys.executable, "-B", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.ranks}",
        os.path.abspath(__file__), *sys.argv[1:],
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}
    sys.exit(subprocess.run(command, env=environment).returncode)


def train(options):
    import train as example  # sets the process up to end with its parent, before it imports torch
    import torch
    import torch.distributed as dist
    from torch.nn import functional as F
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    images = torch.randint(0, 256, (options.samples, 1, 28, 28), dtype=torch.uint8)
    labels = torch.randint(0, 10, (options.samples,))
    model = DistributedDataParallel(example.Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    share = slice(rank * options.global_batch // size, (rank + 1) * options.global_batch // size)
    order = torch.randperm(options.samples, generator=torch.Generator().manual_seed(1))
    for step in range(WARM_UP + options.steps):
        if step == WARM_UP:
            dist.barrier()
            begin = time.monotonic()
        first = step * options.global_batch % (options.samples - options.global_batch + 1)
        batch = order[first : first + options.global_batch][share]
        pixels = (images[batch].float() / 255 - 0.1307) / 0.3081
        optimizer.zero_grad()
        F.nll_loss(model(pixels), labels[batch]).backward()
        optimizer.step()
    seconds = time.monotonic() - begin
    if rank == 0:
        print(json.dumps({"samples_per_second": options.steps * options.global_batch / seconds}), flush=True)
    dist.destroy_process_group()
    sys.stderr.flush()
    os._exit(0)  # torn down in order, the process aborts now and then: "terminate called without an active exception"


def main():
    options = parse()
    if "LOCAL_RANK" in os.environ:
        train(options)
    else:
        start_ranks(options)


if __name__ == "__main__":
    main()
