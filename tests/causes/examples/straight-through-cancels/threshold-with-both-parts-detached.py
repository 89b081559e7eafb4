import torch
from torch import nn

torch.manual_seed(0)
gate, head = nn.Linear(5, 4), nn.Linear(5, 4)
optimizer = torch.optim.SGD([*gate.parameters(), *head.parameters()], lr=0.05)


def choose(soft):
    return soft.detach() + ((soft > 0.5).float() - soft).detach()


for _ in range(8):
    x = torch.randn(32, 5)
    chosen = choose(gate(x).sigmoid())
    loss = ((head(x) * chosen).sum(1) - x.max(1).values).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return soft.detach() + ((soft > 0.5).float() - soft).detach()
