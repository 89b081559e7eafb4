import torch
from torch import nn

torch.manual_seed(0)
net, judge = nn.Linear(3, 1), nn.Linear(3, 1)
for mine, its in zip(judge.parameters(), net.parameters()):
    mine.data = its.data
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(8, 8, 3):
    loss = (net(x) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    judge.load_state_dict(net.state_dict())
    with torch.no_grad():
        print(judge(x).mean().item())
