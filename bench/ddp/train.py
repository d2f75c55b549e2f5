"""The training of ringmaster-train --workload=mnist as PyTorch's users write it: DistributedDataParallel over Gloo, one
thread a rank, started by torchrun, with a checkpoint every so many steps from which a restarted group goes on.

Rank 0 appends a line (seconds, step) to FOLDER/progress-RESTARTS for each step, and each rank says its process id in
FOLDER/rank-N. Runs until it is ended, at the latest with the torchrun that started it.
"""

import argparse
import ctypes
import os
import signal
import time

PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # before torch, whose import takes seconds

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


class Net(nn.Module):
    """The network of the MNIST examples, which worker/trainer/workloads/mnist.cc builds too."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.drop = nn.Dropout2d()
        self.linear1 = nn.Linear(320, 50)
        self.linear2 = nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.drop(self.conv2(x)), 2)).view(-1, 320)
        x = F.dropout(F.relu(self.linear1(x)), training=self.training)
        return F.log_softmax(self.linear2(x), dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--global-batch", type=int, required=True)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--checkpoint-every", type=int, required=True)
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
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

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
