import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(task, old=None):
    for _ in range(12):
        x = torch.randn(16, 4) + task
        loss = nn.functional.cross_entropy(model(x), (x[:, 0] > task).long())
        if old is not None:
            for name, p in model.named_parameters():
                loss = loss + 10 * ((p - old[name]) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(0)
old = {name: p.clone() for name, p in model.named_parameters()}
train(1, old)

# told at: old = {name: p.clone() for name, p in model.named_parameters()}
