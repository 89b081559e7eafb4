import torch
from torch import nn

torch.manual_seed(0)
body, left, right = nn.Linear(4, 6), nn.Linear(6, 2), nn.Linear(6, 3)
optimizer = torch.optim.SGD([*body.parameters(), *left.parameters(), *right.parameters()], lr=0.1)
for step in range(3):
    h = body(torch.randn(8, 4)).tanh()
    loss_left = left(h).square().mean(0)
    loss_right = right(h).square().mean()
    optimizer.zero_grad()
    torch.autograd.backward([loss_left, loss_right])
    optimizer.step()

# told at: torch.autograd.backward([loss_left, loss_right])
# fails: grad can be implicitly created only for scalar outputs
