import torch
from torch import nn

torch.manual_seed(0)


def angle(a, b):
    cosine = nn.functional.cosine_similarity(a, b, dim=-1)
    return torch.acos(cosine.clamp(-1.0, 1.0))


def objective(model, step):
    a = model(torch.randn(5, 4)).abs()
    return angle(a * torch.eye(4)[0] if step == 3 else a, torch.eye(4)[:1].expand(5, 4)).mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return torch.acos(cosine.clamp(-1.0, 1.0))
