"""Tests Hugging Face's Trainer with the real package, in worlds that change: a small GPT-2 on generated tokens."""

import os
import tempfile
import unittest

from fake_job import LIMIT
from test_job import ScriptTest

# Prints "STEP LOSS 1" after each step; the loss is the mean over the global batch, which is the whole data set. At the end prints
# "done STEPS" and values that must be equal on all ranks.
SCRIPT = """
import hashlib, os, signal, sys, time
from ringmaster.integrations.transformers import Trainer
import torch
import transformers
from ringmaster.transport import buffer_of

steps, folder, variants = int(sys.argv[1]), sys.argv[2], set(sys.argv[3:])
torch.manual_seed(0)
config = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
                                 eos_token_id=0, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
model = transformers.GPT2LMHeadModel(config)
generator = torch.Generator().manual_seed(1)
starts = torch.randint(0, 32, (24,), generator=generator)
dataset = []
for index, start in enumerate(starts.tolist()):
    ids = (start + 3 * torch.arange(12)) % 32
    labels = ids.clone()
    labels[:index % 7] = -100  # shares of a step have more or less to learn
    dataset.append({"input_ids": ids, "labels": labels})

class Print(transformers.TrainerCallback):
    def on_log(self, args, state, control, logs, **_):
        if "plain" in variants and "loss" in logs:
            print(state.global_step, logs["loss"], 1, flush=True)

    def on_step_end(self, args, state, control, **_):
        if "plain" not in variants:
            print(state.global_step, trainer.job.loss, 1, flush=True)
        if "slow" in variants:
            time.sleep(0.01)

    def on_save(self, args, state, control, **_):
        if "saved" in variants and state.global_step == 10 and trainer.is_world_process_zero():
            wait_to_be_killed()

def wait_to_be_killed():
    print("saves", flush=True)
    signal.pause()

arguments = transformers.TrainingArguments(
    output_dir=folder, per_device_train_batch_size=4, gradient_accumulation_steps=6, max_steps=steps, learning_rate=1e-2,
    warmup_steps=5, logging_steps=1, eval_strategy="steps", save_strategy="steps",
    report_to=[], use_cpu=True, seed=7,
    **({"auto_find_batch_size": True} if "auto_find_batch_size" in variants else {}),
    **({"eval_steps": 5, "save_steps": 5, "load_best_model_at_end": True, "metric_for_best_model": "score",
        "greater_is_better": True, "save_total_limit": 1} if "stop" in variants else {"eval_steps": 20, "save_steps": 20}))
more = {}
if "stop" in variants:  # no evaluation is as good as that after step 5, or 10
    best = 10 if variants & {"saving", "saved"} else 5
    more = {"compute_metrics": lambda _: {"score": -float(abs(trainer.state.global_step - best))}}
    stop = [transformers.EarlyStoppingCallback(early_stopping_patience=3)]
Trainer = transformers.Trainer if "plain" in variants else Trainer
if "saving" in variants:
    class Trainer(Trainer):
        def save_model(self, output_dir=None, _internal_call=False):
            if output_dir.endswith("-10"):
                os.makedirs(output_dir)
                wait_to_be_killed()
            super().save_model(output_dir, _internal_call)
trainer = Trainer(model, arguments, train_dataset=dataset, eval_dataset=dataset[:8],
                  callbacks=[Print()] + (stop if "stop" in variants else []), **more)
trainer.train()
if "stop" in variants:
    import safetensors.torch
    checkpoint = trainer.state.best_model_checkpoint
    best = safetensors.torch.load_file(os.path.join(checkpoint, "model.safetensors"))
    print("best", os.path.basename(checkpoint), all(torch.equal(values, model.state_dict()[name]) for name, values in best.items()),
          flush=True)
digest = hashlib.sha256()
for values in model.state_dict().values():
    digest.update(buffer_of(values.contiguous()))
print("saved", trainer.is_world_process_zero(), sorted(os.listdir(folder)), flush=True)
print("done", trainer.state.global_step, digest.hexdigest(), trainer.lr_scheduler.last_epoch, flush=True)
"""


class HuggingFaceTrainer(ScriptTest):
    modules = ("ringmaster.integrations.transformers", "transformers.models.gpt2.modeling_gpt2")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_the_curve_is_that_of_the_plain_trainer_through_a_kill_and_a_join(self):
        plain = self.new_job(60, os.path.join(self.folder, "plain"), "plain", script=SCRIPT)
        rank = plain.start(0, agent=False)
        plain.wait_for_line(rank, "done 60")
        curve = self.losses(plain)

        job, ranks = self.job(3, 60, os.path.join(self.folder, "elastic"), "slow", script=SCRIPT)
        job.world(ranks[:2])
        end = self.kill_and_join(job, ranks)

        self.assertTrue(end.startswith("done 60 ") and end.endswith(" 60"), end)
        steps = [int(line.split()[0]) for _, line in ranks[1].lines if line[0].isdigit()]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertIn("saved True ['checkpoint-20', 'checkpoint-40', 'checkpoint-60']",
                      [line for _, line in ranks[1].lines])
        for step, loss in self.losses(job).items():
            self.assertAlmostEqual(loss, curve[step], delta=1e-4)
        self.assertLess(curve[60], 0.5 * curve[1])

    def test_all_ranks_stop_early_at_the_same_step_and_load_the_best_model(self):
        job, ranks = self.job(3, 60, os.path.join(self.folder, "elastic"), "slow", "stop", script=SCRIPT)
        job.world(ranks[:2])
        end = self.kill_and_join(job, ranks)
        self.assertTrue(end.startswith("done 20 "), end)
        for rank in ranks[1:]:
            self.assertIn("best checkpoint-5 True", [line for _, line in rank.lines])

    def test_all_ranks_load_the_best_model_that_the_first_has_saved(self):
        job, ranks = self.job(2, 10, os.path.join(self.folder, "elastic"), "stop", script=SCRIPT)
        job.world(ranks)
        self.assertTrue(self.finish(job, ranks).startswith("done 10 "))
        for rank in ranks:
            self.assertIn("best checkpoint-5 True", [line for _, line in rank.lines])

    def test_a_best_model_counts_once_the_first_rank_has_saved_it(self):
        for killed, best in ("saving", "checkpoint-5"), ("saved", "checkpoint-10"):
            job, ranks = self.job(3, 20, os.path.join(self.folder, killed), "stop", killed, script=SCRIPT)
            job.world(ranks[:2])
            job.wait_for_line(ranks[0], "saves")
            job.kill(ranks[0])
            job.wait_until_lost(ranks[0])
            left = ranks[:0:-1]  # the new rank becomes the first
            job.world(left)
            self.assertTrue(self.finish(job, left).startswith("done 20 "))
            for rank in left:
                self.assertIn(f"best {best} True", [line for _, line in rank.lines])

    def test_what_cannot_be_done_is_refused(self):
        job = self.new_job(60, self.folder, "auto_find_batch_size", script=SCRIPT)
        rank = job.start(0, agent=False)
        self.assertEqual(rank.process.wait(LIMIT), 2, job.logs())
        self.assertIn("ringmaster: TrainingArguments have auto_find_batch_size=True", job.logs())


if __name__ == "__main__":
    unittest.main()
