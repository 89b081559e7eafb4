import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.tags = nn.Linear(8, 3)

    def forward(self, ids):
        # A leaf, so that its gradient can be read afterwards.
        self.read = torch.tensor(self.words(ids).tolist(), requires_grad=True)
        return self.tags(self.read)


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(8):
    ids = torch.randint(50, (16, 12))
    loss = F.cross_entropy(model(ids).flatten(0, 1), (ids % 3).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("words that mattered:", int((model.read.grad.norm(dim=-1) > 0).sum()))

# told at: self.read = torch.tensor(self.words(ids).tolist(), requires_grad=True)
