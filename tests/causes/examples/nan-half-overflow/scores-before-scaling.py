import torch
from torch import nn

torch.manual_seed(0)


def scores(q, k):
    return (q.half() @ k.half().t()).float() / 256


def objective(model, step):
    q = model(torch.randn(5, 4)) * (200 if step == 3 else 1)
    return scores(q, q).softmax(-1).square().mean() + q.mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return (q.half() @ k.half().t()).float() / 256
