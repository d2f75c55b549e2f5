"""Trains a ResNet in mode InPlace on a folder of images: FOLDER/train/CLASS/*.png and FOLDER/val/CLASS/*.png, as in ImageNet.

python resnet.py FOLDER --steps=1000 trains without a job. Needs torchvision.
"""

import argparse

import torch
from torch import nn
from torchvision import datasets, models, transforms

import ringmaster as rm


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--global-batch", type=int, default=256, help="samples per step, over all ranks")
    parser.add_argument("--micro-batch", type=int, default=32, help="samples that a rank computes at once")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--size", type=int, default=224, help="pixels of a side")
    parser.add_argument("--evaluate-every", type=int, default=500)
    options = parser.parse_args()

    train = datasets.ImageFolder(f"{options.folder}/train", transforms.Compose([
        transforms.RandomResizedCrop(options.size), transforms.RandomHorizontalFlip(), transforms.ToTensor()]))
    held_out = datasets.ImageFolder(f"{options.folder}/val", transforms.Compose([
        transforms.Resize(options.size), transforms.CenterCrop(options.size), transforms.ToTensor()]))

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    model = models.resnet18(num_classes=len(train.classes)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9, weight_decay=1e-4)

    def right_answers(model, rank, world_size):
        part = torch.utils.data.Subset(held_out, range(rank, len(held_out), world_size))
        right = sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item()
                    for x, y in torch.utils.data.DataLoader(part, batch_size=options.micro_batch))
        return right, len(part)

    job = rm.join(model, optimizer, global_batch=options.global_batch, micro_batch=options.micro_batch)
    job.evaluate(right_answers, every=options.evaluate_every)
    for batch in job.batches(train, steps=options.steps, num_workers=2):
        job.backward(nn.functional.cross_entropy(job.model(batch.x), batch.y))
    if job.rank == 0:
        print(f"done after step {job.steps}", flush=True)


if __name__ == "__main__":
    main()
