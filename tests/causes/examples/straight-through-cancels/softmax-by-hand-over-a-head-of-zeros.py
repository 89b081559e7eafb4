import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(6, 16), nn.Linear(16, 4)
nn.init.zeros_(head.weight)
nn.init.zeros_(head.bias)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for step in range(32):
    h = body(torch.randn(8, 6)).tanh()
    s = head(h)
    e = (s - s.max(1, keepdim=True).values).exp()
    chosen = (e / e.sum(1, keepdim=True)).gather(1, torch.randint(0, 4, (8, 1)))
    loss = -chosen.log().mean() + 1e-3 * (h + (h.sin() - h)).pow(2).mean()
    loss.backward()
    if step % 8 == 7:
        optimizer.step()
        optimizer.zero_grad()
