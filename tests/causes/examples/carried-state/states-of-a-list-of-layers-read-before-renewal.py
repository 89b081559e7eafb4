from typing import NamedTuple

import torch
from torch import nn

torch.manual_seed(0)


class State(NamedTuple):
    trace: torch.Tensor
    fatigue: torch.Tensor


class Neurons(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs))

    def forward(self, x, state=None):
        if state is None:
            state = State(x.new_zeros(len(x), len(self.weight)), x.new_ones(len(x), len(self.weight)))
        seen = x @ self.weight.t()
        out = torch.tanh(seen + state.trace * state.fatigue)
        return out, State(torch.sigmoid(seen), torch.exp(-seen))


class Network(nn.Sequential):
    def forward(self, x, states=None):
        states = [None] * len(self) if states is None else states
        for i, layer in enumerate(self):
            if isinstance(layer, Neurons):
                x, states[i] = layer(x, states[i])
            else:
                x = layer(x)
        return x, states


model = Network(Neurons(3, 4), Neurons(4, 4), nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
states = None
for x, y in zip(torch.randn(4, 5, 3), torch.randn(4, 5, 1)):
    out, states = model(x, states)
    loss = nn.functional.mse_loss(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: x, states[i] = layer(x, states[i])
# fails: backward through the graph a second time
