"""Tests scripts that train with the package and use autocast, a gradient scaler or a compiled model."""

import json
import unittest

from test_job import ScriptTest

# Prints "STEP LOSS SAMPLES" for each micro-batch, and at the end "done STEPS" and values that must be equal on all ranks.
# Arguments: steps, and names of variants.
SCRIPT = """
import contextlib, hashlib, json, sys, time
import torch
import ringmaster as rm
from ringmaster.transport import buffer_of

steps, variants = int(sys.argv[1]), set(sys.argv[2:])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
generator = torch.Generator().manual_seed(1)
x = torch.randn(300, 16, generator=generator)
dataset = torch.utils.data.TensorDataset(x, (x[:, :4] * 2).argmax(1))
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=20) if "scaler" in variants else None
job = rm.join(model, optimizer, global_batch=24, micro_batch=8, scaler=scaler)
forward = torch.compile(job.model, backend="aot_eager") if "compile" in variants else job.model
kinds = [kind for kind in (torch.bfloat16, torch.float16) if str(kind) in variants]
autocast = torch.autocast("cpu", kinds[0]) if kinds else contextlib.nullcontext()
updates = 0
job.after_step(lambda: globals().__setitem__("updates", updates + 1))
for batch in job.batches(dataset, steps=steps):
    with autocast:
        loss = torch.nn.functional.cross_entropy(forward(batch.x), batch.y)
    job.backward(loss)
    print(job.steps, loss.item(), len(batch), flush=True)
    if "slow" in variants:
        time.sleep(0.005)
digest = hashlib.sha256()
for values in model.state_dict().values():
    digest.update(buffer_of(values.contiguous()))
print("updates", updates, flush=True)
print("done", job.steps, digest.hexdigest(), json.dumps(scaler.state_dict() if scaler else None), flush=True)
"""


class Precision(ScriptTest):
    def curve(self, size, *arguments):
        job, ranks = self.job(size, *arguments, script=SCRIPT)
        job.world(ranks)
        self.finish(job, ranks)
        return self.losses(job)

    def same_curves(self, variants, delta):
        """Asserts that each step has the same loss with one rank and with two, and that the loss falls."""
        alone, two = self.curve(1, 40, *variants), self.curve(2, 40, *variants)
        self.assertEqual(len(two), 40)
        for step, loss in alone.items():
            self.assertAlmostEqual(two[step], loss, delta=delta)
        self.assertLess(two[39], 0.7 * two[0])

    def test_bf16_autocast(self):
        self.same_curves(["torch.bfloat16"], 0.02)

    def test_a_compiled_model(self):
        self.same_curves(["compile"], 1e-4)

    def test_a_gradient_scaler_skips_the_same_steps_on_all_ranks_and_its_state_moves_to_a_new_one(self):
        job, ranks = self.job(2, 300, "scaler", "torch.float16", "slow", script=SCRIPT)
        job.world(ranks)
        job.wait_for_line(ranks[0], "40 ")
        job.kill(ranks[1])
        job.wait_until_lost(ranks[1])
        job.world(ranks[:1])
        newcomer = job.start(1)
        job.wait_for([newcomer], "RankHello")
        job.switch()
        job.wait_for(ranks[:1], "RankAtBoundary")
        job.world([ranks[0], newcomer])
        end = self.finish(job, [ranks[0], newcomer])
        self.assertLess(json.loads(end.split(" ", 3)[3])["scale"], 2.0**24)
        updates = next(int(line.split()[1]) for _, line in ranks[0].lines if line.startswith("updates"))
        self.assertTrue(0 < updates < 300, f"{updates} steps changed the model")

    def test_a_gradient_scaler_changes_no_curve(self):
        self.same_curves(["scaler"], 1e-4)


if __name__ == "__main__":
    unittest.main()
