import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
coder, decoder = nn.Linear(6, 4), nn.Linear(4, 6)
optimizer = torch.optim.SGD([*coder.parameters(), *decoder.parameters()], lr=0.05)


def spread_of(code, step):
    spread = code.pow(2).mean()
    if step < 50:  # it is only watched until the coder has warmed up
        spread = spread.detach()
    return spread


for step in range(8):
    x = torch.randn(16, 6)
    code = coder(x)
    loss = F.mse_loss(decoder(code), x) + spread_of(code, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")
