import torch
from torch import nn

torch.manual_seed(0)


class Weighted:
    def __init__(self):
        self.base = nn.CrossEntropyLoss(reduction="none")

    def __call__(self, logits, target, weights):
        return self.base(logits, target) * weights


model, criterion = nn.Linear(5, 3), Weighted()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y, w = torch.randn(4, 5), torch.randint(3, (4,)), torch.rand(4)
for epoch in range(2):
    loss = criterion(model(x), y, w)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: loss = criterion(model(x), y, w)
# fails: grad can be implicitly created only for scalar outputs
