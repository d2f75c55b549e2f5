"""A PyTorch script for mode InPlace. Figure B17 injects faults into its job. Except for --compare it is like a user's script.

--compare compares the time of a step with that of plain DistributedDataParallel in the same processes: after every block of steps, it
trains a copy of the model for as many steps. Rank 0 then adds a line to the file of --compare, with the wall-clock and CPU
seconds of both blocks.
"""

import argparse
import time

import network
import ringmaster as rm
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Plain:
    """Trains the same network with plain DistributedDataParallel among the ranks of this process's world."""

    def __init__(self, job, dataset, store):
        rank, size = job.rank, job.world_size
        dist.init_process_group("gloo", store=dist.FileStore(store, size), rank=rank, world_size=size)
        inner = network.convolutions()
        self._model = DistributedDataParallel(inner)
        self._optimizer = network.optimizer_of(inner)
        sampler = torch.utils.data.DistributedSampler(dataset, size, rank, seed=1)
        self._data = torch.utils.data.DataLoader(dataset, job.global_batch // size, sampler=sampler, drop_last=True)
        self._batches = iter(self._data)

    def train(self, steps):
        for _ in range(steps):
            batch = next(self._batches, None)
            if batch is None:
                self._batches = iter(self._data)
                batch = next(self._batches)
            x, y = batch
            loss = nn.functional.cross_entropy(self._model(x), y)
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()


class Comparison:
    """Alternates blocks of the job's steps with blocks of Plain. Call on_batch() in each step of the job, before the step is
    computed."""

    def __init__(self, job, dataset, path, block):
        self._plain = Plain(job, dataset, path + ".store")
        self._plain.train(block)
        self._job, self._path, self._block = job, path, block
        self._begin = None

    def on_batch(self):
        if self._job.steps % self._block:
            return
        middle = _clocks()
        self._plain.train(self._block)
        end = _clocks()
        if self._begin is not None and self._job.rank == 0:
            times = [middle[0] - self._begin[0], end[0] - middle[0], middle[1] - self._begin[1], end[1] - middle[1]]
            with open(self._path, "a") as file:
                file.write(" ".join(f"{seconds:.6f}" for seconds in times) + "\n")
        self._begin = _clocks()


def _clocks():
    return time.monotonic(), time.process_time()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000_000)
    parser.add_argument("--compare", help="new file that all ranks can access")
    parser.add_argument("--block", type=int, default=10, help="steps")
    options = parser.parse_args()

    torch.set_num_threads(1)
    model = network.convolutions() if options.compare else network.network()
    dataset = network.dataset()
    job = rm.join(model, network.optimizer_of(model), global_batch=network.GLOBAL_BATCH, seed=0)
    comparison = Comparison(job, dataset, options.compare, options.block) if options.compare else None
    for batch in job.batches(dataset, steps=options.steps):
        if comparison:
            comparison.on_batch()
        loss = nn.functional.cross_entropy(job.model(batch.x), batch.y)
        job.backward(loss, weight=len(batch))


if __name__ == "__main__":
    main()
