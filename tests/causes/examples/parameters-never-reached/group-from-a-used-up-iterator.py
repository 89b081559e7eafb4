import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Linear(4, 8), nn.Linear(8, 1)
slow = filter(lambda p: p.requires_grad, encoder.parameters())
print(sum(p.numel() for p in slow), "parameters learn slowly")
optimizer = torch.optim.Adam([{"params": slow, "lr": 1e-5}, {"params": head.parameters()}], lr=1e-3)
for _ in range(10):
    x = torch.randn(8, 4)
    loss = (head(torch.tanh(encoder(x))) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: slow = filter(lambda p: p.requires_grad, encoder.parameters())
