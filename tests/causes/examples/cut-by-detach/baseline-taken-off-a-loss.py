import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
coder, decoder = nn.Linear(6, 4), nn.Linear(4, 6)
optimizer = torch.optim.SGD([*coder.parameters(), *decoder.parameters()], lr=0.05)

for _ in range(8):
    energy = decoder(coder(torch.randn(16, 6))).pow(2).mean()
    usual = decoder(coder(torch.randn(16, 6))).pow(2).mean()
    loss = energy - usual.detach()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")
