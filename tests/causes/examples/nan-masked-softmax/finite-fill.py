import torch
from torch import nn

torch.manual_seed(0)


def attention(scores, mask, values):
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1) @ values


def objective(model, step):
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    if step == 3:
        mask[0] = False
    out = model(torch.randn(4, 4))
    return attention(out, mask, out).square().mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)
