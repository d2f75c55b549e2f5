"""A training script that uses Hugging Face's Accelerate on CPUs, as `accelerate launch` starts it. Continues from its
last checkpoint."""

import argparse
import itertools
import os
import time

import torch
from accelerate import Accelerator
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint", required=True, help="a file that all ranks see")
parser.add_argument("--every", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--until", required=True, help="a file: the program does not end before somebody makes it")
options = parser.parse_args()

torch.manual_seed(1)
images = torch.randn(256, 16)
labels = (images @ torch.randn(16, 4)).argmax(1)
model = nn.Linear(16, 4)
accelerator = Accelerator(cpu=True)
batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=16)
model, optimizer, batches = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), batches)

step = 0
if os.path.exists(options.checkpoint):
    state = torch.load(options.checkpoint)
    accelerator.unwrap_model(model).load_state_dict(state["model"])
    step = state["step"]
accelerator.print(f"{accelerator.num_processes} ranks begin after step {step}", flush=True)
while step < options.steps:
    for x, y in itertools.islice(batches, options.steps - step):
        optimizer.zero_grad()
        accelerator.backward(nn.functional.cross_entropy(model(x), y))
        optimizer.step()
        step += 1
        if step % options.every == 0 and accelerator.is_main_process:
            accelerator.save({"model": accelerator.get_state_dict(model), "step": step}, options.checkpoint + ".new")
            os.replace(options.checkpoint + ".new", options.checkpoint)
while not os.path.exists(options.until):
    time.sleep(0.05)
accelerator.wait_for_everyone()
accelerator.print(f"done after step {step}", flush=True)
