import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)

body, left, right = nn.Linear(6, 16), nn.Linear(16, 1), nn.Linear(16, 1)
trained = [p for m in (body, left, right) for p in m.parameters()]
optimizer = torch.optim.SGD(trained, lr=0.05)
for step in range(12):
    seen = torch.randn(16, 6)
    hidden = body(seen).relu()
    one, two = left(hidden), right(hidden)
    loss = F.binary_cross_entropy_with_logits(one, two.sigmoid()) + F.binary_cross_entropy_with_logits(two, one.sigmoid())
    loss = loss + F.binary_cross_entropy_with_logits(one, (seen[:, :1] > 0).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
