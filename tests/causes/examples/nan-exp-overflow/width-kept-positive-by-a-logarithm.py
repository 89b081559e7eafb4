"""A width is kept positive by the logarithm of one more than its exponential; one sample in the fourth batch is far
out."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
rows = torch.randn(32, 3)
rows[27] = 3000.0
for batch in rows.split(8):
    mean, raw = net(batch).abs().unbind(1)
    grown = raw.exp()
    width = torch.log(grown + 1) + 0.1
    loss = (torch.log(width) + ((batch.sum(1) - mean) / width).square()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss), "the loss is not finite"

# told at: grown = raw.exp()
# fails: the loss is not finite
