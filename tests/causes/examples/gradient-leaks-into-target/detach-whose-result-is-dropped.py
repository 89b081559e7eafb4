import torch
from torch import nn

torch.manual_seed(0)


class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        self.predictor = nn.Linear(8, 8)

    def forward(self, one, two):
        p, z = self.predictor(self.encoder(one)), self.encoder(two)
        z = nn.functional.normalize(z, dim=1)
        z.detach()
        return -(nn.functional.normalize(p, dim=1) * z).sum(1).mean()


model = SimSiam()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(16, 8)
    loss = model(x + 0.1 * torch.randn_like(x), x)
    opt.zero_grad()
    loss.backward()
    opt.step()

# told at: z.detach()
