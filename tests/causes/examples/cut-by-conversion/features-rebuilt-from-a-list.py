import torch
from torch import nn

torch.manual_seed(0)


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.score = nn.Linear(8, 1)

    def forward(self, x):
        rows = self.features(x).tolist()
        return self.score(torch.tensor(rows))


model = Scorer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    x = torch.randn(16, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")

# told at: rows = self.features(x).tolist()
