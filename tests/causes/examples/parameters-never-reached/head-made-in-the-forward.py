import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, size=6):
        super().__init__()
        self.body = nn.GRU(size, 10, batch_first=True)

    def forward(self, x):
        states, _ = self.body(x)
        score = nn.Linear(states.shape[-1], 3)
        return score(states)


torch.manual_seed(0)
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(12):
    x, y = torch.randn(8, 5, 6), torch.randint(0, 3, (8, 5))
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: score = nn.Linear(states.shape[-1], 3)
