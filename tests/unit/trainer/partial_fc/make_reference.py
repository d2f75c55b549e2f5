#!/usr/bin/env python3
"""Writes reference.json: the results of plain PyTorch for the head of a partial-fc model.

    PYTHONPATH=$(deploy/local/pytorch.sh) tests/unit/trainer/partial_fc/make_reference.py > tests/unit/trainer/partial_fc/reference.json

The script computes in double precision, with autograd, in one process with all centres in one matrix. It draws the sampled
classes with a separate implementation of Philox, written from the published definition.
"""

import json
import math

import torch

SAMPLING = 7  # RandomPurpose::kClassSampling
MASK = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def sampled_classes(seed, step, rate, classes, labels):
    def draw(label):
        words = philox([label // 4, step, 0, SAMPLING << 24], [seed, 0])
        return (words[label % 4] >> 8) / 16777216.0

    return [c for c in range(classes) if c in labels or draw(c) < rate]


def with_margin(cosine, m1, m2, m3):
    if m1 == 1 and m2 == 0:
        return cosine - m3
    angle = m1 * torch.acos(cosine) + m2
    turns = torch.floor(angle / math.pi).detach()
    sign = 1 - 2 * torch.remainder(turns, 2)
    return sign * torch.cos(angle) - 2 * turns - m3


def short(tensor):
    """Returns the values with nine digits, which represent a float exactly."""
    return [float("%.9g" % value) for value in tensor.flatten().tolist()]


def case(name, margin, rate, generator, classes=37, dimension=19, batch=11, seed=5, step=3, scale=64.0):
    def normal(*shape):
        # Round to floats, so that both sides start from the same numbers.
        return torch.randn(*shape, generator=generator, dtype=torch.float32).double()

    embeddings = normal(batch, dimension).requires_grad_(True)
    centres = normal(classes, dimension)
    labels = torch.randint(classes, (batch,), generator=generator)
    labels[1] = labels[0]
    with torch.no_grad():  # some samples near their centres, some beyond a half turn with the margin
        centres[labels[2]] = (embeddings[2] + 0.3 * centres[labels[2]]).float().double()
        centres[labels[3]] = (-embeddings[3] + 0.2 * centres[labels[3]]).float().double()
    centres.requires_grad_(True)
    sampled = sampled_classes(seed, step, rate, classes, set(labels.tolist()))
    units = torch.nn.functional.normalize(embeddings)
    cosines = units @ torch.nn.functional.normalize(centres[sampled]).T
    target = torch.tensor([sampled.index(label) for label in labels.tolist()])
    own = torch.nn.functional.one_hot(target, len(sampled)).bool()
    logits = scale * torch.where(own, with_margin(cosines.clamp(-1 + 1e-12, 1 - 1e-12), *margin), cosines)
    losses = torch.nn.functional.cross_entropy(logits, target, reduction="none")
    losses.sum().backward()
    return {
        "name": name, "margin": margin, "scale": scale, "rate": rate, "seed": seed, "step": step,
        "classes": classes, "dimension": dimension, "labels": labels.tolist(), "sampled": sampled,
        "embeddings": short(embeddings.detach()), "centres": short(centres.detach()),
        "loss": losses.sum().item(),
        "embedding_gradients": short(embeddings.grad), "centre_gradients": short(centres.grad / batch),
    }


def main():
    generator = torch.Generator().manual_seed(20261121)
    cases = [
        case("ArcFace", [1, 0.5, 0], 1.0, generator),
        case("CosFace", [1, 0, 0.4], 1.0, generator),
        case("Combined", [1, 0.3, 0.2], 1.0, generator),
        case("CombinedWithFactor", [1.35, 0.2, 0.1], 1.0, generator),
        case("NoMargin", [1, 0, 0], 1.0, generator, scale=16.0),
        case("ArcFaceSampled", [1, 0.5, 0], 0.3, generator),
        case("CosFaceSampled", [1, 0, 0.4], 0.1, generator),
    ]
    print("[" + ",\n".join(json.dumps(one) for one in cases) + "]")


main()
