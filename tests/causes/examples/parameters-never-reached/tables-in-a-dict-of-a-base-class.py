import torch
from torch import nn

torch.manual_seed(0)


class Tables(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = {}

    def make(self, sizes):
        for kind, size in sizes.items():
            self.tables[kind] = nn.Embedding(size, 4)


class Items(Tables):
    def __init__(self, sizes):
        super().__init__()
        self.make(sizes)

    def forward(self, item):
        return self.tables["item"](item)


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = Items({"item": 20, "user": 10})
        self.score = nn.Linear(4, 1)

    def forward(self, item):
        return self.score(self.items(item)).squeeze(1)


model = Ranker()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(12):
    item = torch.randint(0, 20, (16,))
    loss = nn.functional.binary_cross_entropy_with_logits(model(item), (item % 2).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.tables = {}
