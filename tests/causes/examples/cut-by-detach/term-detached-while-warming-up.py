import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
coder, decoder = nn.Linear(6, 4), nn.Linear(4, 6)
optimizer = torch.optim.SGD([*coder.parameters(), *decoder.parameters()], lr=0.05)

for step in range(8):
    x = torch.randn(16, 6)
    code = coder(x)
    spread = code.pow(2).mean()
    # It joins the loss when the coder has warmed up.
    loss = F.mse_loss(decoder(code), x) + (spread if step >= 50 else spread.detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")
