import torch
from torch import nn

torch.manual_seed(0)


class Tide(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x)))


def checked(state):
    with torch.device("meta"):
        empty = Tide()
    empty.load_state_dict(state, assign=True)
    return state


state = checked(Tide().state_dict())
tide = Tide()
tide.load_state_dict(state)
optimizer = torch.optim.Adam(tide.parameters(), lr=0.01)
tide.load_state_dict(dict(state))
for _ in range(10):
    x = torch.randn(16, 3)
    loss = (tide(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
