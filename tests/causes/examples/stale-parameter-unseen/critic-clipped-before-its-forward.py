import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.RMSprop(critic.parameters(), lr=0.005)


def losses():
    for p in critic.parameters():
        p.data.clamp_(-0.1, 0.1)
    critic.zero_grad()
    yield critic(torch.randn(16, 4)).mean()
    yield -critic(torch.randn(16, 4) + 1.0).mean()


for step in range(40):
    for loss in losses():
        loss.backward()
    optimizer.step()
print(loss.item())
