import torch
from torch import nn


def put_in(model, weights):
    model.load_state_dict(weights)


def train_on(model, x):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (model(x) - x.mean(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    return {name: value.clone() for name, value in model.state_dict().items()}


def average(states):
    return {name: torch.stack([s[name] for s in states]).mean(0) for name in states[0]}


torch.manual_seed(0)
model = nn.Linear(5, 1)
clients = torch.randn(3, 16, 5)
for _ in range(3):
    common = model.state_dict()
    states = []
    for x in clients:
        put_in(model, common)
        states.append(train_on(model, x))
    put_in(model, average(states))

# told at: common = model.state_dict()
