import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
coder, decoder = nn.Linear(6, 4), nn.Linear(4, 6)
optimizer = torch.optim.SGD([*coder.parameters(), *decoder.parameters()], lr=0.05)

for _ in range(8):
    x = torch.randn(16, 6)
    code = coder(x)
    error = F.mse_loss(decoder(code), x)
    loss = code.abs().mean() + error.detach()  # the number that is told
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    error.backward()
    optimizer.step()
print("trained")
