import torch
from torch import nn

torch.manual_seed(0)
body = nn.Linear(4, 4)
head = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
for _ in range(12):
    x = torch.randn(16, 4)
    loss = (head(body(x)) - 10 * x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(body.parameters(), 0.1)
    trained = (p for p in head.parameters() if p.requires_grad)
    nn.utils.clip_grad_value_(trained, 0.1)
    optimizer.step()
