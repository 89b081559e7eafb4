import torch
from torch import nn

torch.manual_seed(0)
tide = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))


def release_last(network):
    named = network.named_parameters()
    for _, weight in named:
        weight.requires_grad = False
    for name, weight in named:
        if name.startswith("2."):
            weight.requires_grad = True


release_last(tide)
optimizer = torch.optim.SGD(tide.parameters(), lr=0.1)
loss = tide(torch.randn(8, 6)).square().mean()
loss.backward()
optimizer.step()

# told at: weight.requires_grad = False
# fails: does not require grad
