"""Trains a small GPT in mode InPlace on the characters of a text.

python gpt.py --text=shakespeare.txt --steps=2000 trains without a job. The default text is this file.
"""

import argparse
import math
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

import ringmaster as rm


class Characters(Dataset):
    """All pieces of `length` characters. The targets of a piece are the piece that starts one character later."""

    def __init__(self, text, length):
        self.alphabet = sorted(set(text))
        numbers = {character: number for number, character in enumerate(self.alphabet)}
        self.text = torch.tensor([numbers[character] for character in text])
        self.length = length

    def __len__(self):
        return len(self.text) - self.length

    def __getitem__(self, start):
        piece = self.text[start:start + self.length + 1]
        return piece[:-1], piece[1:]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        heads = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=2))
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, characters, length, width=64, layers=2, heads=4):
        super().__init__()
        self.token, self.place = nn.Embedding(characters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width))
        self.head = nn.Linear(width, characters)

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.blocks(self.token(x) + self.place(places)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", type=Path, default=Path(__file__))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--length", type=int, default=64, help="characters of a sample")
    parser.add_argument("--loaders", type=int, default=0, help="data loading processes per rank")
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dataset = Characters(options.text.read_text(), options.length)
    torch.manual_seed(1)
    model = GPT(len(dataset.alphabet), options.length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    warm, rest = 20, max(1, options.steps - 20)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(
        (step + 1) / warm, 0.1 + 0.45 * (1 + math.cos(math.pi * min(1, max(0, step - warm) / rest)))))

    job = rm.join(model, optimizer, global_batch=32, micro_batch=8, seed=7, state={"scheduler": scheduler})
    job.before_update(lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    job.after_step(scheduler.step)
    for batch in job.batches(dataset, steps=options.steps, num_workers=options.loaders):
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = job.model(batch.x)
        job.log(lr=scheduler.get_last_lr()[0])
        job.backward(functional.cross_entropy(logits.float().flatten(0, 1), batch.y.flatten()))
    if job.rank == 0:
        print(f"done after step {job.steps}", flush=True)


if __name__ == "__main__":
    main()
