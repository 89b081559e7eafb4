import torch
from torch import nn


class Neuron(nn.Module):
    def __init__(self):
        super().__init__()
        self.potential = 0.0

    def forward(self, x):
        self.potential = 0.5 * self.potential + x
        return torch.sigmoid(self.potential)

    def reset(self):
        self.potential = 0.0


def reset_net(model):
    for module in model.modules():
        if isinstance(module, Neuron):
            module.reset()


@torch.no_grad()
def validate(model, x):
    for row in x:
        model(row)
        reset_net(model)


def train(model, optimizer, x):
    for row in x:
        loss = model(row).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


model = nn.Sequential(nn.Linear(6, 6), Neuron(), nn.Linear(6, 6), Neuron(), nn.Linear(6, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
validate(model, torch.randn(2, 3, 6))
train(model, optimizer, torch.randn(4, 3, 6))

# told at: self.potential = 0.5 * self.potential + x
# fails: Trying to backward through the graph a second time
