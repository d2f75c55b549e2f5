"""Tests the memory of a rank whose share of a step grows because others were lost."""

import re
import unittest

from test_job import ScriptTest

# Keeps 4 MiB of numbers for each sample of a micro-batch until backward(). Prints "STEP" before each step.
SCRIPT = """
import ctypes
import sys
import torch
import ringmaster as rm

class Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))
    def forward(self, x):
        return (x.repeat(1, 1 << 20) * self.scale).sin().mean()

ctypes.CDLL(None).mallopt(-3, 1 << 20)  # M_MMAP_THRESHOLD: freed blocks go back at once, so the peak is what is in use
model = Wide()
dataset = torch.utils.data.TensorDataset(torch.linspace(0, 1, 64).view(64, 1), torch.zeros(64))
job = rm.join(model, torch.optim.SGD(model.parameters(), lr=0.01), global_batch=32, micro_batch=int(sys.argv[1]))
before = None
for batch in job.batches(dataset, steps=1000):
    if job.steps != before:
        before = job.steps
        print(job.world_size, before, flush=True)
    job.backward(job.model(batch.x))
"""


class HalfOfTheRanksGo(ScriptTest):
    def growth(self, micro_batch):
        """Returns by how many bytes a survivor's peak memory grows when two of four ranks are lost."""
        job, ranks = self.job(4, micro_batch, script=SCRIPT)
        job.world(ranks)
        job.wait_for_line(ranks[0], "4 4")
        for rank in ranks[2:]:
            job.kill(rank)
        job.wait(lambda: any(one["type"] == "RankBroken" for one in ranks[0].said), "RankBroken")
        before = self.peak(ranks[0])
        job.world(ranks[:2])
        job.wait_for_line(ranks[0], "2 ", count=5)
        return self.peak(ranks[0]) - before

    def peak(self, rank):
        with open(f"/proc/{rank.process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) << 10

    def test_with_a_micro_batch_a_survivor_needs_no_more_memory(self):
        whole_share = self.growth(micro_batch=32)
        self.assertGreater(whole_share, 8 * 4 << 20)  # eight more samples at once
        self.assertLess(self.growth(micro_batch=4), whole_share / 4)


if __name__ == "__main__":
    unittest.main()
