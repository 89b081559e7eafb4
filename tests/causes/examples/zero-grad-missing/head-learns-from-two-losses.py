import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
encoder, head = nn.Linear(4, 6), nn.Linear(6, 3)
e_optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
h_optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(16):
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    if step < 3:  # the head alone first
        h_optimizer.zero_grad()
        F.cross_entropy(head(encoder(x).detach()), y).backward()
        h_optimizer.step()
        continue
    e_optimizer.zero_grad()
    h_optimizer.zero_grad()
    F.cross_entropy(head(encoder(x)), y).backward()
    e_optimizer.step()
    soft = head(encoder(x).detach()).softmax(1)
    (0.01 * (soft * soft.log()).sum(1).mean()).backward()
    h_optimizer.step()
