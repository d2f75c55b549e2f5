"""Tests the scripts of examples/pytorch-in-place with the real packages that they use: a rank is killed and another one joins."""

import os
import tempfile
import unittest

import torch
from PIL import Image
from test_job import ScriptTest

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "pytorch-in-place")


class Examples(ScriptTest):
    modules = ("torchvision", "ringmaster.integrations.transformers", "transformers.models.gpt2.modeling_gpt2")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def train(self, name, *arguments, steps, **environment):
        """Trains with three ranks, one of which is lost. Returns the losses that rank 0 reported, in order of the steps."""
        with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
            script = file.read()
        job, ranks = self.job(3, f"--steps={steps}", *arguments, script=script, **environment)
        job.world(ranks)
        job.wait_for(ranks[:1], "RankProgress")
        job.kill(ranks[1])
        newcomer = job.start(1)
        job.wait_for([newcomer], "RankHello")
        members = [ranks[0], newcomer, ranks[2]]
        job.world(members)
        job.wait_for(members, "RankDone")
        job.release()
        for rank in members:
            self.assertEqual(rank.process.wait(60), 0, job.logs())
        job.wait_for_line(ranks[0], f"done after step {steps}")
        reports = [one["progress"] for one in ranks[0].said if one["type"] == "RankProgress"]
        self.assertEqual(reports[-1]["step"], steps)
        return [report["loss"] for report in reports]

    def text(self):
        path = os.path.join(self.folder, "text")
        with open(path, "w", encoding="utf-8") as file:
            file.write("to be, or not to be: that is the question. " * 20)
        return path

    def test_gpt(self):
        losses = self.train("gpt.py", f"--text={self.text()}", "--length=16", "--loaders=1", steps=60)
        self.assertLess(sum(losses[-5:]) / 5, 0.5 * losses[0])

    def test_huggingface(self):
        saved = os.path.join(self.folder, "model")
        losses = self.train("huggingface.py", f"--text={self.text()}", f"--output={saved}", steps=60, HF_HUB_OFFLINE="1")
        self.assertLess(sum(losses[-5:]) / 5, 0.5 * losses[0])
        self.assertIn("model.safetensors", os.listdir(saved))

    def test_resnet(self):
        generator = torch.Generator().manual_seed(1)
        for part, count in (("train", 24), ("val", 6)):
            for color in range(3):
                folder = os.path.join(self.folder, part, f"color{color}")
                os.makedirs(folder)
                for number in range(count):
                    pixels = torch.randint(0, 100, (40, 40, 3), generator=generator, dtype=torch.uint8)
                    pixels[:, :, color] += 100
                    Image.frombytes("RGB", (40, 40), bytes(pixels.flatten().tolist())).save(f"{folder}/{number}.png")
        losses = self.train("resnet.py", self.folder, "--global-batch=24", "--micro-batch=8", "--size=32", "--learning-rate=0.003",
                            "--evaluate-every=10", steps=20)
        self.assertLess(sum(losses[-5:]) / 5, 0.5 * losses[0])


if __name__ == "__main__":
    unittest.main()
