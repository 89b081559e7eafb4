import torch
from torch import nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
        self.head = nn.Linear(32, 4)
        self.target = nn.Linear(32, 16)
        self.predictor = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, x):
        h = self.encoder(x)
        with torch.no_grad():
            t = self.target(h)
        return self.head(h), self.predictor(h), t


torch.manual_seed(0)
model = Model()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(30):
    x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
    out, p, t = model(x)
    loss = F.cross_entropy(out, y) + F.mse_loss(p, t)
    opt.zero_grad()
    loss.backward()
    opt.step()
