import torch
from torch import nn

torch.manual_seed(0)


class Near(nn.Module):
    def __init__(self):
        super().__init__()
        self.radius = nn.Parameter(torch.tensor(1.5))
        self.weigh = nn.Linear(3, 1)

    def forward(self, places):
        far = (self.radius <= places.norm(dim=-1)).float()
        return (self.weigh(places).squeeze(-1) * (1 - far)).sum(1)


net = Near()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(10):
    places = torch.randn(16, 8, 3)
    loss = (net(places) - places.sum((1, 2))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: far = (self.radius <= places.norm(dim=-1)).float()
