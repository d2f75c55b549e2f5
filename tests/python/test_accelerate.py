"""Tests a script that uses the real package Accelerate, in worlds that change."""

import unittest

from test_job import ScriptTest

# Prints "STEP LOSS SAMPLES" for each micro-batch, and at the end "done STEPS" and values that must be equal on all ranks. The data
# set is one step's global batch, so that the plain Accelerator ("plain") computes the same.
SCRIPT = """
import hashlib, sys, time
variants = set(sys.argv[2:])
if "plain" in variants:
    from accelerate import Accelerator
else:
    from ringmaster.integrations.accelerate import Accelerator
import torch
from ringmaster.transport import buffer_of

steps = int(sys.argv[1])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.9)
x = torch.randn(24, 16, generator=torch.Generator().manual_seed(1))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, (x[:, :4] * 2).argmax(1)), batch_size=24)
accelerator = Accelerator(cpu=True)
model, optimizer, scheduler, loader = accelerator.prepare(model, optimizer, scheduler, loader)
if "plain" in variants:
    batches = (batch for _ in range(steps) for batch in loader)
else:
    job = accelerator.join(global_batch=24, micro_batch=5)
    batches = job.batches(loader, steps=steps)
step = 0
for inputs, targets in batches:
    loss = torch.nn.functional.cross_entropy(model(inputs), targets)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    print(step if "plain" in variants else job.steps, loss.item(), len(inputs), flush=True)
    step += 1
    if "slow" in variants:
        time.sleep(0.01)
digest = hashlib.sha256()
for values in model.state_dict().values():
    digest.update(buffer_of(values.contiguous()))
print("main", accelerator.is_main_process, flush=True)
print("done", steps, digest.hexdigest(), scheduler.scheduler.last_epoch, flush=True)
"""


# A step with scaled losses and an optimizer that would unscale the gradients itself.
SCALED = """
import torch
from ringmaster.integrations.accelerate import Accelerator

model = torch.nn.Linear(4, 2)
before, bias = model.weight.detach().clone(), model.bias.detach().clone()
accelerator = Accelerator(cpu=True)
accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1.0, fused=True))
job = accelerator.join(global_batch=8)
for batch in job.batches(torch.utils.data.TensorDataset(torch.randn(8, 4)), steps=1):
    accelerator.backward(model(batch.data[0]).square().sum())
    accelerator.clip_grad_norm_([model.weight], 0.01)
moved = sum(values.norm() ** 2 for values in (model.weight.detach() - before, model.bias.detach() - bias)).sqrt()
assert 0.009 < moved < 0.011, moved
print("done", accelerator._norm.item(), flush=True)
"""


class AcceleratorTest(ScriptTest):
    modules = ("ringmaster.integrations.accelerate",)

    def test_the_curve_is_that_of_the_plain_accelerator_through_a_kill_and_a_join(self):
        plain = self.new_job(100, "plain", script=SCRIPT)
        rank = plain.start(0, agent=False)
        plain.wait_for_line(rank, "done 100")
        self.assertEqual(rank.process.wait(30), 0)
        curve = self.losses(plain)

        job, ranks = self.job(3, 100, "slow", script=SCRIPT)
        job.world(ranks[:2])
        end = self.kill_and_join(job, ranks)

        self.assertTrue(end.endswith(" 100"), end)
        self.assertIn("main True", [line for _, line in ranks[1].lines])
        self.assertIn("main False", [line for _, line in ranks[2].lines])
        done = [int(line.split()[0]) for _, line in ranks[1].lines if line[0].isdigit()]
        self.assertEqual(done, sorted(done))
        self.assertEqual(set(done), set(range(100)))
        self.assert_same_curve(job, ranks[2], curve)

    def test_scaled_gradients_are_unscaled_before_they_are_clipped(self):
        job = self.new_job(script=SCALED)
        rank = job.start(0, agent=False)
        self.assertEqual(rank.process.wait(60), 0, job.logs())
        self.assertLess(float(rank.lines[-1][1].split()[1]), 1000)


if __name__ == "__main__":
    unittest.main()
