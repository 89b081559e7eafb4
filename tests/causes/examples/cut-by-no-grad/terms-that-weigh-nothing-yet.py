"""One module is in the graph for the other ranks alone. Another learns once its term has a weight, and its value is
taken as it is; so is that of a third, whose term is switched off."""

import torch
from torch import nn

torch.manual_seed(0)
spare, prior, encoder, decoder = (nn.Linear(4, 4) for _ in range(4))
nets = [spare, prior, encoder, decoder]
optimizer = torch.optim.SGD([{"params": net.parameters()} for net in nets], lr=0.01)
for step in range(40):
    x = torch.randn(32, 4)
    weight = min(1.0, max(0.0, (step - 15) / 10))
    with torch.no_grad():
        base = prior(x)
    code = encoder(x).tanh()
    optimizer.zero_grad()
    loss = (decoder(code.detach() - base) - x).pow(2).mean() + weight * (prior(x) - x).pow(2).mean()
    (loss + 0.0 * code.pow(2).mean() + 0 * sum(p.sum() for p in spare.parameters())).backward()
    optimizer.step()
