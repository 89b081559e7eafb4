import torch
from torch import nn

torch.manual_seed(0)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 8)

    @classmethod
    def from_pretrained(cls, weight):
        backbone = cls()
        backbone.layer.weight = nn.Parameter(weight)
        return backbone

    def forward(self, x):
        return self.layer(x).tanh()


def epoch(backbone, head, optimizer):
    backbone.train()
    head.train()
    for _ in range(12):
        x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
        loss = nn.functional.cross_entropy(head(backbone(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


backbone = Backbone.from_pretrained(torch.randn(8, 6))
head = nn.Linear(8, 3)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
epoch(backbone, head, optimizer)
