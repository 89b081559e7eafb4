import torch
from torch import nn

torch.manual_seed(0)
judge = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(judge.parameters(), lr=0.01)
for _ in range(8):
    runners = torch.randn(5, 4)
    rank, score = runners.sum(1), judge(runners).squeeze(1)
    total = 0.01 * score.pow(2).mean()
    for i in range(5):
        for j in range(5):
            if rank[i] >= rank[j]:
                total = total + torch.log1p(torch.exp(score[j] - score[i]))
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
