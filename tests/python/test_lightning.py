"""Tests a LightningModule of the real package, in worlds that change."""

import unittest

from fake_job import LIMIT
from test_job import ScriptTest

# Prints "STEP LOSS SAMPLES" for each micro-batch, and at the end "done STEPS" and values that must be equal on all ranks. The data
# set is one step's global batch, so that Lightning's own Trainer ("plain") computes the same.
SCRIPT = """
import hashlib, sys, time
import pytorch_lightning as lightning
import torch
from ringmaster.integrations.lightning import fit
from ringmaster.transport import buffer_of

steps, variants = int(sys.argv[1]), set(sys.argv[2:])

class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))

    def training_step(self, batch, batch_index):
        inputs, targets = batch
        loss = torch.nn.functional.cross_entropy(self.layers(inputs), targets)
        self.log("train_loss", loss, prog_bar=True)
        print(batch_index, loss.item(), len(inputs), flush=True)
        if "slow" in variants:
            time.sleep(0.01)
        return {"loss": loss}

    def validation_step(self, batch, batch_index):
        inputs, targets = batch
        self.log_dict({"val_loss": torch.nn.functional.cross_entropy(self.layers(inputs), targets)})

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.9)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

class Manual(Classifier):
    def on_before_optimizer_step(self, optimizer):
        pass

torch.manual_seed(0)
module = Manual() if "manual" in variants else Classifier()
x = torch.randn(24, 16, generator=torch.Generator().manual_seed(1))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, (x[:, :4] * 2).argmax(1)), batch_size=24)
if "plain" in variants:
    trainer = lightning.Trainer(accelerator="cpu", max_steps=steps, gradient_clip_val=0.1, logger=False, barebones=True)
    trainer.fit(module, loader)
else:
    job = fit(module, loader, loader, max_steps=steps, global_batch=24, micro_batch=5, validate_every=20,
              gradient_clip_val=0.1)
digest = hashlib.sha256()
for values in module.state_dict().values():
    digest.update(buffer_of(values.contiguous()))
print("done", steps, digest.hexdigest(), flush=True)
"""


class LightningTest(ScriptTest):
    modules = ("ringmaster.integrations.lightning", "pytorch_lightning")

    def test_the_curve_is_that_of_the_trainer_through_a_kill_and_a_join(self):
        plain = self.new_job(100, "plain", script=SCRIPT.replace("print(batch_index", "print(self.global_step"))
        rank = plain.start(0, agent=False)
        plain.wait_for_line(rank, "done 100")
        self.assertEqual(rank.process.wait(LIMIT), 0)
        curve = self.losses(plain)

        job, ranks = self.job(3, 100, "slow", script=SCRIPT)
        job.world(ranks[:2])
        self.kill_and_join(job, ranks)

        done = [int(line.split()[0]) for _, line in ranks[1].lines if line[0].isdigit()]
        self.assertEqual(set(done), set(range(100)))
        self.assert_same_curve(job, ranks[2], curve)
        logged = [line for _, line in ranks[1].lines if '"val_loss"' in line and '"train_loss"' in line]
        self.assertTrue(logged, ranks[1].lines)

    def test_a_module_that_changes_steps_is_refused(self):
        job = self.new_job(10, "manual", script=SCRIPT)
        rank = job.start(0, agent=False)
        self.assertEqual(rank.process.wait(LIMIT), 2, job.logs())
        self.assertIn("ringmaster: Manual overrides on_before_optimizer_step, which fit() does not call", job.logs())


if __name__ == "__main__":
    unittest.main()
