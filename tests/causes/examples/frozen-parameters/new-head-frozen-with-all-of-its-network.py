import torch
from torch import nn

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.head = nn.Linear(8, 100)

    def forward(self, x):
        return self.head(self.body(x))


tagger = Tagger()
tagger.head = nn.Linear(8, 3)
for p in tagger.parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD(tagger.parameters(), lr=0.1)
for step in range(2):
    loss = nn.functional.cross_entropy(tagger(torch.randn(5, 6)), torch.randint(3, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: p.requires_grad = False
# fails: does not require grad and does not have a grad_fn
