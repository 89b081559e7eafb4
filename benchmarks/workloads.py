"""Training steps to be timed: three bound by the number of small operations, two bound by arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Step = Callable[[], None]


def _trained(module: nn.Module, loss_of: Callable[[], torch.Tensor]) -> Step:
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)

    def step() -> None:
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def mlp() -> Step:
    """Six 64-wide layers, batch 32."""
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(64, 1))
    x, y = torch.randn(32, 64), torch.randn(32, 1)
    return _trained(net, lambda: F.mse_loss(net(x), y))


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(16, 32)
        self.head = nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, c = x.new_zeros(x.shape[1], 32), x.new_zeros(x.shape[1], 32)
        out = []
        for row in x:
            h, c = self.cell(row, (h, c))
            out.append(self.head(h))
        return torch.stack(out)


def lstm_cell() -> Step:
    """An LSTMCell over 40 time steps, batch 8."""
    net = _Recurrent()
    x, y = torch.randn(40, 8, 16), torch.randn(40, 8, 1)
    return _trained(net, lambda: (net(x) - y).square().mean())


class _ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.policy = nn.Linear(64, 4)
        self.value = nn.Linear(64, 1)

    def loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        hidden = self.body(batch["obs"])
        logits = self.policy(hidden)
        log_p = logits - logits.logsumexp(-1, keepdim=True)
        new = log_p.gather(1, batch["action"]).squeeze(1)
        ratio = (new - batch["old"]).exp()
        clipped = ratio.clamp(0.8, 1.2)
        gain = torch.min(ratio * batch["advantage"], clipped * batch["advantage"]).mean()
        value = self.value(hidden).squeeze(1)
        error = (value - batch["return"]) ** 2
        entropy = -(log_p.exp() * log_p).sum(1).mean()
        return -gain + 0.5 * error.mean() - 0.01 * entropy


def elementwise() -> Step:
    """A PPO update: two small heads and many element-wise operations, batch 64."""
    net = _ActorCritic()
    batch = {
        "obs": torch.randn(64, 8),
        "action": torch.randint(4, (64, 1)),
        "old": torch.randn(64),
        "advantage": torch.randn(64),
        "return": torch.randn(64),
    }
    return _trained(net, lambda: net.loss(batch))


def transformer() -> Step:
    """Two encoder layers of width 128, 4 heads, sequence 64, batch 8."""
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    x = torch.randn(8, 64, 128)
    return _trained(net, lambda: net(x).square().mean())


def convolution() -> Step:
    """Three convolutions with batch norm on 32 x 32 images, batch 16."""
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, stride=2),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    x, y = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
    return _trained(net, lambda: F.cross_entropy(net(x), y))


WORKLOADS: dict[str, tuple[Callable[[], Step], float]] = {
    "MLP": (mlp, 1.25),
    "LSTMCell": (lstm_cell, 1.25),
    "element-wise (PPO)": (elementwise, 1.25),
    "transformer": (transformer, 1.05),
    "convolution": (convolution, 1.05),
}
"""Name to (maker of the step, largest ratio to plain Python that is allowed)."""


def machine() -> str:
    """One line about the machine that the numbers were measured on."""
    import os
    import platform

    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            name = next((line.partition(":")[2].strip() for line in f if line.startswith("model name")), name)
    except OSError:
        pass
    versions: list[Any] = [platform.python_version(), torch.__version__, torch.get_num_threads()]
    return f"{name}, {os.cpu_count()} cores; Python {versions[0]}, torch {versions[1]}, {versions[2]} thread(s)"
