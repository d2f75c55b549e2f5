"""The networks and the data that the scripts of B17 use: a perceptron, a convolutional network, and generated samples.

The perceptron has short steps, to inject many faults. A step of the convolutional network is mostly arithmetic, so it is used to measure
the cost of a step. All computations use one thread.
"""

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


def convolutions():
    """Sets the same initial weights in every process. Each sample is an image of 16 x 16."""
    torch.manual_seed(1)
    return nn.Sequential(
        *(nn.Unflatten(1, (1, 16, 16)), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(32 * 8 * 8, 128), nn.ReLU(), nn.Linear(128, CLASSES)),
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
