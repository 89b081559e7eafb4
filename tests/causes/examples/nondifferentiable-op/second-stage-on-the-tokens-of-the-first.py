import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
painter, table, printer, prior = nn.Linear(6, 3), nn.Embedding(8, 3), nn.Linear(3, 6), nn.Embedding(8, 8)
parts = nn.ModuleList([painter, table, printer, prior])
optimizer = torch.optim.Adam(parts.parameters(), lr=1e-2)
for step in range(24):
    picture = torch.rand(32, 6)
    z = painter(picture)
    number = torch.cdist(z, table.weight).argmin(-1)
    chosen = table(number)
    through = z + (chosen - z).detach()
    commitment = F.mse_loss(z, chosen.detach()) + F.mse_loss(chosen, z.detach())
    if step < 12:
        loss = F.mse_loss(printer(through), picture) + commitment
    else:
        # what comes next is learned from the tokens alone
        loss = F.cross_entropy(prior(number[:-1]), number[1:]) + 0.1 * commitment
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
