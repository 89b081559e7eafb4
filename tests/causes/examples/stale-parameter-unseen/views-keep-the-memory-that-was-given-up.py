import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(20):
    x = torch.randn(16, 4)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    for p in net.parameters():
        p.data = p.data.clamp(-0.3, 0.3)  # the layers have saved transposed views of what they held
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
