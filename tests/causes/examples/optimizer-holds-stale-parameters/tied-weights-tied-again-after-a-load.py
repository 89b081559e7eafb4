"""A decoder that is tied to its embedding, and the embedding is loaded: it is tied again."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.body, self.out = nn.Embedding(20, 6), nn.Linear(6, 6), nn.Linear(6, 20, bias=False)
        self.tie()

    def tie(self):
        self.out.weight = self.words.weight

    def forward(self, x):
        return self.out(torch.tanh(self.body(self.words(x))))


model = Model()
state = {"words.weight": torch.randn(20, 6)}
model.load_state_dict(state, strict=False, assign=True)
model.requires_grad_(True)
model.tie()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(8):
    x = torch.randint(0, 20, (16,))
    optimizer.zero_grad()
    F.cross_entropy(model(x), (x + 1) % 20).backward()
    optimizer.step()
