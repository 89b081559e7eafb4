import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 8)).to(torch.bfloat16)
layers = [*net[0].parameters(), *net[3].parameters()]
optimizer = torch.optim.AdamW([{"params": layers}, {"params": net[1].weight, "lr": 1e-5}], lr=1e-2)
for _ in range(70):
    x = torch.randn(32, 8).bfloat16()
    loss = F.mse_loss(net(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 8)).to(torch.bfloat16)
