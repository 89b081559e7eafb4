import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
total, latest = 0, []
for _ in range(20):
    x = torch.randn(16, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach()
    latest.append(loss)  # a few of them do no harm
print(f"mean loss {total / 20:.4f}, last {latest[-1].item():.4f}")
