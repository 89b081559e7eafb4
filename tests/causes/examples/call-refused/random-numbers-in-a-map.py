import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 2)


def example_loss(x):
    noise = torch.rand(2)
    return (net(x) + noise).square().mean()


loss = torch.vmap(example_loss)(torch.randn(8, 4)).mean()
loss.backward()

# told at: noise = torch.rand(2)
# fails: vmap: called random operation while in randomness error mode
