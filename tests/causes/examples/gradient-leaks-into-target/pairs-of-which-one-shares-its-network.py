import torch
from torch import nn

torch.manual_seed(0)
left, right = nn.Linear(3, 1), nn.Linear(3, 1)
old_left, old_right = nn.Linear(3, 1), right
optimizer = torch.optim.SGD([*left.parameters(), *right.parameters()], lr=0.1)
for x in torch.randn(8, 8, 3):
    goal = 0.5 + 0.9 * (old_left(x + 1) + old_right(x + 1)).detach()
    loss = (left(x) + right(x) - goal).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for old, net in ((old_left, left), (old_right, right)):
        old.load_state_dict(net.state_dict())
