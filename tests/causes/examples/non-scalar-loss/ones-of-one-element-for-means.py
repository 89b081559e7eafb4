import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
optimizer = torch.optim.Adam(net.parameters())
for _ in range(4):
    angles, truth = net(torch.randn(8, 4)), torch.randn(8, 3)
    losses = [(angles[:, i] - truth[:, i]).square().mean() for i in range(3)]
    weights = [torch.ones(1) for _ in losses]
    optimizer.zero_grad()
    torch.autograd.backward(losses, weights)
    optimizer.step()

# told at: weights = [torch.ones(1) for _ in losses]
# fails: Mismatch in shape: grad_output[0]
