"""The networks that both sides of the figures train, with the same layers as in worker/trainer/workloads/mnist.cc,
worker/bench/training/image_classifier.cc and, for SmallNet, worker/trainer/backbones/small_net.cc."""

import typing

import torch
from torch import nn
from torch.nn import functional as F


class Mnist(nn.Module):
    """The network of the MNIST examples."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.drop = nn.Dropout2d()
        self.linear1 = nn.Linear(320, 50)
        self.linear2 = nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.drop(self.conv2(x)), 2)).view(-1, 320)
        x = F.dropout(F.relu(self.linear1(x)), training=self.training)
        return F.log_softmax(self.linear2(x), dim=1)


def convolution(inputs, outputs, kernel, stride):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class BasicBlock(nn.Module):
    """ResNet's block (He et al., arXiv 1512.03385)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = convolution(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
        self.shortcut = (
            nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)) if stride != 1 else nn.Identity()
        )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.shortcut(x), inplace=True)


class ImprovedBlock(nn.Module):
    """IResNet's block, as in insightface's arcface_torch."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), convolution(inputs, outputs, 3, 1)
        self.bn2, self.prelu = nn.BatchNorm2d(outputs), nn.PReLU(outputs)
        self.conv2, self.bn3 = convolution(outputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.shortcut = (
            nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)) if stride != 1 else nn.Identity()
        )

    def forward(self, x):
        y = self.conv1(self.bn1(x))
        y = self.conv2(self.prelu(self.bn2(y)))
        return self.bn3(y) + self.shortcut(x)


def stages(block, strides, depths=(2, 2, 2, 2)):
    channels, blocks = 64, []
    for outputs, stride, depth in zip((64, 128, 256, 512), strides, depths):
        for i in range(depth):
            blocks.append(block(channels, outputs, stride if i == 0 else 1))
            channels = outputs
    return nn.Sequential(*blocks)


class ResNet18(nn.Module):
    """ResNet for images of 32×32 pixels."""

    def __init__(self, classes=10):
        super().__init__()
        self.begin = nn.Sequential(convolution(3, 64, 3, 1), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
        self.stages = stages(BasicBlock, (1, 2, 2, 2))
        self.head = nn.Linear(512, classes)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.stages(self.begin(x)), 1).flatten(1))


class IResNet(nn.Module):
    """IResNet with a linear layer instead of partial-fc."""

    def __init__(self, depths, side, classes=1000):
        super().__init__()
        self.begin = nn.Sequential(convolution(3, 64, 3, 1), nn.BatchNorm2d(64), nn.PReLU(64))
        self.stages = stages(ImprovedBlock, (2, 2, 2, 2), depths)
        self.bn = nn.BatchNorm2d(512)
        for _ in range(4):
            side = (side + 1) // 2
        self.fc = nn.Linear(512 * side * side, 512)
        self.features = nn.BatchNorm1d(512)
        self.head = nn.Linear(512, classes)

    def forward(self, x):
        x = self.bn(self.stages(self.begin(x))).flatten(1)
        return self.head(self.features(self.fc(x)))


class SmallNet(nn.Module):
    """The backbone of --backbone=small, which computes embeddings of images."""

    def __init__(self, channels, embedding):
        super().__init__()
        self.conv1, self.prelu1 = convolution(channels, 8, 3, 2), nn.PReLU(8)
        self.conv2, self.prelu2 = convolution(8, 16, 3, 2), nn.PReLU(16)
        self.fc = nn.Linear(16 * 7 * 7, embedding)
        for layer in (self.conv1, self.conv2):
            nn.init.normal_(layer.weight, 0, 0.1)

    def forward(self, x):
        x = self.prelu2(self.conv2(self.prelu1(self.conv1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 7).flatten(1))


class Network(typing.NamedTuple):
    make: typing.Callable[[], nn.Module]
    channels: int
    side: int
    classes: int
    samples: int
    loss: typing.Callable


NETWORKS = {
    "mnist": Network(Mnist, 1, 28, 10, 8192, F.nll_loss),
    "resnet18": Network(ResNet18, 3, 32, 10, 256, F.cross_entropy),
    "iresnet18": Network(lambda: IResNet((2, 2, 2, 2), 56), 3, 56, 1000, 256, F.cross_entropy),
    "iresnet50": Network(lambda: IResNet((3, 4, 14, 3), 112), 3, 112, 1000, 1024, F.cross_entropy),
}


def data(network, samples):
    """Returns generated images and labels; the images are bytes for mnist, floating-point numbers for the other
    networks."""
    generator = torch.Generator().manual_seed(7)
    shape = (samples, network.channels, network.side, network.side)
    images = (
        torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        if network.channels == 1
        else torch.randn(shape, generator=generator)
    )
    return images, torch.randint(0, network.classes, (samples,), generator=generator)


def pixels(batch):
    """Converts a batch to the input type of the network."""
    return (batch.float() / 255 - 0.1307) / 0.3081 if batch.dtype == torch.uint8 else batch
