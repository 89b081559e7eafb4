import torch
from torch import nn

torch.manual_seed(0)


def build(classes):
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 100))
    model[2] = nn.Linear(8, classes)
    for p in model.parameters():
        p.requires_grad = False
    return model


model = build(3)
optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
for step in range(2):
    loss = nn.functional.cross_entropy(model(torch.randn(5, 6)), torch.randint(3, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: p.requires_grad = False
# fails: does not require grad and does not have a grad_fn
