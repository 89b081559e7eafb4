import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)

first, second = nn.Linear(8, 24), nn.Linear(24, 24)
early, late = nn.Linear(24, 4), nn.Linear(24, 4)
trained = [p for m in (first, second, early, late) for p in m.parameters()]
optimizer = torch.optim.Adam(trained, lr=5e-3)
for step in range(60):
    x = torch.randn(64, 8)
    y = x[:, :4].argmax(dim=1)
    hidden = first(x).relu()
    exits = early(hidden), late(second(hidden).relu())
    belief = exits[1].softmax(dim=1)
    sure = (belief.amax(dim=1) > 0.4).float()
    follow = -(belief * exits[0].log_softmax(dim=1)).sum(dim=1) * sure
    loss = F.multi_margin_loss(exits[1], y) + F.cross_entropy(exits[0], y) + 0.2 * follow.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
