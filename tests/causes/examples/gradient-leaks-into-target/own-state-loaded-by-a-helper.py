import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)


def follow(to, of):
    state = of.state_dict()
    to.load_state_dict(state_dict=state)


pricer, held = nn.Linear(3, 2), nn.Linear(3, 2)
optimizer = torch.optim.SGD(pricer.parameters(), lr=0.05)
for x in torch.randn(8, 16, 3):
    goal = 0.5 + 0.9 * held(x + 1).max(dim=1).values.detach()
    optimizer.zero_grad()
    mse_loss(pricer(x)[:, 0], goal).backward()
    optimizer.step()
    follow(pricer, pricer)
    follow(held, pricer)
