import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(3):
    scores = net(torch.randn(4, 3))
    optimizer.zero_grad()
    for score, answer in zip(scores, torch.randint(0, 2, (4,))):
        nn.functional.cross_entropy(score, answer).backward(retain_graph=True)
    optimizer.step()
