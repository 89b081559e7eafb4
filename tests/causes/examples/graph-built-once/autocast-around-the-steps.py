import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
states = torch.randn(64, 4)


def optimize():
    for _ in range(6):
        loss = mse_loss(policy(states).float(), states.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


with torch.autocast("cpu", dtype=torch.bfloat16):
    optimize()


# told at: with torch.autocast("cpu", dtype=torch.bfloat16):
