"""Trains as ringmaster-train does, but as a plain PyTorch loop in one process, on the same data (training_data.cc),
with flags of the same names and PyTorch's random numbers.

Prints one JSON object: the loss of each step, and the accuracy on held-out images, measured as in the trainer's workloads.
For partial-fc the object also contains "identified": the share of the held-out images whose own class has the closest
centre of all. With --checkpoint, does not train: measures the accuracy and "identified" with the parameters in
ringmaster-train's checkpoint.
"""

import argparse
import json
import math
import pathlib
import struct

import torch
from networks import Mnist, SmallNet, pixels
from torch import nn
from torch.nn import functional as F

MARGIN = 0.5  # ArcFace's margin, in radians


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path, help="what training_data.cc wrote")
    parser.add_argument("--workload", choices=["mnist", "partial-fc"], required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--global-batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--momentum", type=float, required=True)
    parser.add_argument("--weight-decay", type=float, required=True)
    parser.add_argument("--max-shift", type=int, default=0)
    parser.add_argument("--classes", type=int)
    parser.add_argument("--embedding", type=int)
    parser.add_argument("--sample-rate", type=float)
    parser.add_argument("--image-side", type=int)
    parser.add_argument("--scale", type=float)
    parser.add_argument("--checkpoint", type=pathlib.Path)
    return parser.parse_known_args()[0]  # other flags set what is the same here anyway


def read(path, kind):
    return torch.from_file(str(path), dtype=kind, size=path.stat().st_size // kind.itemsize)


def load(options, half):
    """Returns images and labels."""
    grey = options.workload == "mnist"
    shape = (1, 28, 28) if grey else (3, options.image_side, options.image_side)
    images = read(options.folder / f"{half}.images", torch.uint8 if grey else torch.float32)
    return images.view(-1, *shape), read(options.folder / f"{half}.labels", torch.int64)


def shifted(images, most):
    """Returns the images, each shifted at random by at most `most` pixels in each direction."""
    side = images.shape[-1]
    padded = F.pad(images, (most,) * 4)
    places = torch.randint(0, 2 * most + 1, (len(images), 2)).tolist()
    return torch.stack([image[:, y : y + side, x : x + side] for image, (y, x) in zip(padded, places)])


def train(options, parameters, loss_of):
    """Trains with the loss that loss_of(images, labels) computes, and returns the loss of each step."""
    images, labels = load(options, "training")
    epochs = math.ceil(options.steps * options.global_batch / len(labels))
    order = torch.cat([torch.randperm(len(labels)) for _ in range(epochs)]).split(options.global_batch)
    optimizer = torch.optim.SGD(
        parameters, lr=options.learning_rate, momentum=options.momentum, weight_decay=options.weight_decay
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.steps)
    losses = []
    for batch in order[: options.steps]:
        optimizer.zero_grad()
        loss = loss_of(images[batch], labels[batch])
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def mnist(options):
    model = Mnist()
    model.train()
    losses = train(
        options, model.parameters(),
        lambda images, labels: F.nll_loss(model(pixels(shifted(images, options.max_shift))), labels),
    )  # fmt: skip
    model.eval()
    images, labels = load(options, "held-out")
    with torch.no_grad():
        right = model(pixels(images)).argmax(1) == labels
    return {"losses": losses, "accuracy": right.float().mean().item()}


def with_margin(cosines, target):
    """Applies ArcFace's margin. For angles over π, where the cosine increases again, the logit continues to decrease (margin.h)."""
    own = cosines.gather(1, target[:, None]).clamp(-1 + 1e-7, 1 - 1e-7)
    angle = own.acos() + MARGIN
    return cosines.scatter(1, target[:, None], torch.where(angle < math.pi, angle.cos(), -angle.cos() - 2))


def partial_fc(options):
    backbone = SmallNet(3, options.embedding)
    centres = nn.Parameter(0.01 * torch.randn(options.classes, options.embedding))

    def loss_of(images, labels):
        sampled = torch.rand(options.classes) < options.sample_rate
        sampled[labels] = True
        sampled = sampled.nonzero().flatten()
        target = torch.searchsorted(sampled, labels)
        cosines = F.normalize(backbone(images)) @ F.normalize(centres[sampled]).T
        return F.cross_entropy(options.scale * with_margin(cosines, target), target)

    if options.checkpoint:
        losses = []
        read_checkpoint(options.checkpoint, backbone, centres)
    else:
        losses = train(options, [*backbone.parameters(), centres], loss_of)
    images, labels = load(options, "held-out")
    with torch.no_grad():
        embeddings = F.normalize(backbone(images))
        first, same, other = (embeddings[index] for index in triplets(labels.tolist()))
        closer = (first * same).sum(1) > (first * other).sum(1)
        found = (embeddings @ F.normalize(centres).T).argmax(1)
    return {"losses": losses, "accuracy": closer.float().mean().item(), "identified": (found == labels).float().mean().item()}


def triplets(labels):
    """Returns three lists of indices: of each image, of the next image of its class, and of the next image of another class, cyclically."""
    of_class = {}
    for image, label in enumerate(labels):
        of_class.setdefault(label, []).append(image)
    first, same, other = [], [], []
    for label, members in of_class.items():
        for i, image in enumerate(members if len(members) > 1 else []):
            first.append(image)
            same.append(members[(i + 1) % len(members)])
            other.append((image + 1) % len(labels))
            while labels[other[-1]] == label:
                other[-1] = (other[-1] + 1) % len(labels)
    return torch.tensor(first), torch.tensor(same), torch.tensor(other)


def read_checkpoint(folder, backbone, centres):
    """Loads the checkpoint of a single rank. Parameters are stored from last to first, each at a multiple of 64 floats (buckets.h),
    the weights of convolutions in channels-last order; each row of part-0 is a centre and its momentum."""
    (done,) = folder.glob("*/DONE")

    def values(name):
        (begin,) = struct.unpack("<16xQ", (done.parent / name).read_bytes()[:24])  # shard_format.h
        return read(done.parent / name, torch.float32)[begin // 4 :]

    with torch.no_grad():
        flat = values("shard-0")
        for parameter in reversed(list(backbone.parameters())):
            stored = parameter.permute(0, 2, 3, 1) if parameter.dim() == 4 else parameter
            stored.copy_(flat[: parameter.numel()].view(stored.shape))
            flat = flat[-(-parameter.numel() // 64) * 64 :]
        centres.copy_(values("part-0").view(len(centres), -1)[:, : centres.shape[1]])


def main():
    options = parse()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    print(json.dumps(mnist(options) if options.workload == "mnist" else partial_fc(options)))


if __name__ == "__main__":
    main()
