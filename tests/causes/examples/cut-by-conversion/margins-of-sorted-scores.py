import torch
from torch import nn

torch.manual_seed(0)
judge = nn.Linear(6, 1)
optimizer = torch.optim.Adam(judge.parameters(), lr=1e-2)


def margins(scores):
    ordered = sorted(scores.tolist())
    return torch.tensor([max(0.0, 0.5 - (b - a)) for a, b in zip(ordered, ordered[1:])]).mean()


for step in range(20):
    chosen, rejected = judge(torch.randn(8, 6) + 1).squeeze(1), judge(torch.randn(8, 6)).squeeze(1)
    loss = -nn.functional.logsigmoid(chosen - rejected).mean() + margins(torch.cat([chosen, rejected]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
# told at: ordered = sorted(scores.tolist())
