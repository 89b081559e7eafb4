import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)


def follow(to, of):
    state = of.state_dict()
    to.load_state_dict(state_dict=state)


pricer = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
frozen = pricer.to("cpu")
optimizer = torch.optim.SGD(pricer.parameters(), lr=0.05)
for x in torch.randn(8, 16, 3):
    goal = 0.5 + 0.9 * frozen(x + 1).max(dim=1).values
    optimizer.zero_grad()
    mse_loss(pricer(x)[:, 0], goal).backward()
    optimizer.step()
    follow(frozen, pricer)

# told at: frozen = pricer.to("cpu")
