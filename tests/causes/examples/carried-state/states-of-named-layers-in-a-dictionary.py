from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Trace:
    level: torch.Tensor
    trend: torch.Tensor


class Reservoir(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.gates = nn.ModuleDict({name: nn.Linear(4, 4) for name in names})
        self.traces = {name: Trace(torch.zeros(4), torch.zeros(4)) for name in names}

    def forward(self, readings):
        for name, gate in self.gates.items():
            trace = self.traces[name]
            trace.level = torch.tanh(gate(readings) + trace.trend)
            trace.trend = torch.sigmoid(trace.trend + trace.level)
            readings = trace.level
        return readings


torch.manual_seed(0)
model = Reservoir(["upper", "lower"])
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    readings = torch.randn(4)
    loss = (model(readings) - readings).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: trace.trend = torch.sigmoid(trace.trend + trace.level)
# fails: Trying to backward through the graph a second time
