import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3))
        self.head = nn.Linear(8, 2)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return self.head(x.mean(1))


tower = Tower()
for module in (tower.embedding, tower.blocks[0]):
    for p in module.parameters():
        p.requires_grad = False
optimizer = torch.optim.Adam([p for p in tower.parameters() if p.requires_grad], lr=0.01)
for _ in range(6):
    loss = nn.functional.cross_entropy(tower(torch.randint(20, (4, 5))), torch.randint(2, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: x = checkpoint(block, x, use_reentrant=True)
