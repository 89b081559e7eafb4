import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)

names = torch.randn(8, 4) * 2
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(12):
    known, unknown = torch.randn(16, 8), torch.randn(32, 8)
    loss = F.cross_entropy(net(known), (known @ names).argmax(1))
    calm = net(unknown).softmax(dim=1)
    disturbed = net(unknown + 0.1 * torch.randn_like(unknown)).log_softmax(dim=1)
    present = (torch.rand(32) > 0.3).float()
    loss = loss + 2 * (F.kl_div(disturbed, calm, reduction="none").sum(dim=1) * present).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
