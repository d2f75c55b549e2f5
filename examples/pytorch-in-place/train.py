"""Trains a small network in mode InPlace: when workers are lost or join, the other processes continue from the same step.

Outside of a job, it trains in a single process: python train.py --steps=200
"""

import argparse

import torch
from torch import nn
from torch.utils.data import TensorDataset

import ringmaster as rm


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--global-batch", type=int, default=256, help="samples per step, over all ranks")
    options = parser.parse_args()

    torch.manual_seed(1)  # all ranks have the same data and the same initial weights
    images = torch.randn(4096, 64)
    labels = (images @ torch.randn(64, 10)).argmax(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
    model.to("cuda" if torch.cuda.is_available() else "cpu")  # in a job each rank sees only its own GPU
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    job = rm.join(model, optimizer, global_batch=options.global_batch, seed=7)
    for batch in job.batches(TensorDataset(images, labels), steps=options.steps):
        loss = nn.functional.cross_entropy(job.model(batch.x), batch.y)
        job.backward(loss, weight=len(batch))
    if job.rank == 0:
        print(f"done after step {job.steps}", flush=True)


if __name__ == "__main__":
    main()
