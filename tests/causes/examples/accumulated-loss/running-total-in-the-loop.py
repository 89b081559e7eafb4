import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total_loss = 0
for _ in range(3):
    x = torch.randn(4, 3)
    total_loss += (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    total_loss.backward()
    optimizer.step()

# told at: total_loss += (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
# fails: backward through the graph a second time
