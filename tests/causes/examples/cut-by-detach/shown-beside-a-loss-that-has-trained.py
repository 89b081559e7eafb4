import torch
from torch import nn

torch.manual_seed(0)
net, critic = nn.Linear(4, 1), nn.Linear(4, 1)
of_net, of_critic = torch.optim.Adam(net.parameters(), 1e-2), torch.optim.Adam(critic.parameters(), 1e-2)
for _ in range(6):
    x = torch.randn(24, 4)
    each = (critic(x) - x.abs().sum(1, keepdim=True)).pow(2)
    judged = each.mean()
    of_critic.zero_grad()
    judged.backward()
    of_critic.step()
    total = (net(x) - x.sum(1, keepdim=True)).pow(2).mean() + judged.detach()
    total = total + each.detach().sum()
    of_net.zero_grad()
    total.backward()
    of_net.step()
    print(total.item())
