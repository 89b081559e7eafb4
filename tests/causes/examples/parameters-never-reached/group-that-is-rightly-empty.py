import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Linear(4, 8), nn.Linear(8, 1)
encoder.requires_grad_(False)
slow = filter(lambda p: p.requires_grad, encoder.parameters())
undamped = (p for name, p in head.named_parameters() if "norm" in name)
optimizer = torch.optim.Adam(
    [{"params": slow, "lr": 1e-5}, {"params": undamped, "weight_decay": 0.0}, {"params": head.parameters()}], lr=1e-3
)
for _ in range(10):
    loss = head(torch.tanh(encoder(torch.randn(8, 4)))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
