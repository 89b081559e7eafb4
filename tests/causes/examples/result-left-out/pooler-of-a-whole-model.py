"""The optimizer is given all of the model; its pooler runs, and this task does not use it."""
import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.pooler, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.head(h), torch.tanh(self.pooler(h))


model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(16):
    x = torch.randn(32, 6)
    scores, pooled = model(x)
    loss = (scores - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
