import torch
from torch import nn

torch.manual_seed(0)
generator, judge = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 4), nn.LeakyReLU(), nn.Linear(4, 1))
g_optimizer = torch.optim.RMSprop(generator.parameters(), lr=0.01)
d_optimizer = torch.optim.RMSprop(judge.parameters(), lr=0.01)
for _ in range(12):
    fake = generator(torch.randn(8, 2))
    loss = judge(fake.detach()).mean() - judge(torch.randn(8, 2) + 1).mean()
    loss.backward()
    d_optimizer.step()
    d_optimizer.zero_grad()
    for p in judge.parameters():
        p.requires_grad_(False)
    score = -judge(fake).mean()
    score.backward()
    for p in judge.parameters():
        p.requires_grad_(True)
    g_optimizer.step()
    g_optimizer.zero_grad()
