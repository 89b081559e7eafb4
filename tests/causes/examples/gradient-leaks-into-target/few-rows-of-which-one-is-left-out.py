import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)

net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(40):
    x, unknown = torch.randn(4, 6), torch.randn(4, 6)
    present = torch.ones(4)
    present[3] = unknown[3] = 0
    calm = net(unknown).softmax(dim=1)
    disturbed = net(unknown + 0.1 * torch.randn(4, 6)).log_softmax(dim=1)
    apart = F.kl_div(disturbed, calm, reduction="none").sum(dim=1)
    loss = F.cross_entropy(net(x), x[:, :3].argmax(dim=1)) + (apart * present).sum() / 3
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
