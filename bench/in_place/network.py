"""The network and the data that all scripts of B17 use: a perceptron and generated samples. All computations use one
thread."""

import os

import torch
from torch import nn

GLOBAL_BATCH = 512
SAMPLES = 8192
FEATURES, HIDDEN, CLASSES = 256, 512, 10


def network():
    """Sets the same initial weights in every process."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
    )


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def dataset():
    """Returns the same samples in every process."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(SAMPLES, FEATURES, generator=generator)
    y = (x @ torch.randn(FEATURES, CLASSES, generator=generator)).argmax(1)
    return torch.utils.data.TensorDataset(x, y)


def save(path, state):
    """Writes the file atomically."""
    torch.save(state, f"{path}.{os.getpid()}")
    os.replace(f"{path}.{os.getpid()}", path)
