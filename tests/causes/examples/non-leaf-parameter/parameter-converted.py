import torch
from torch import nn

torch.manual_seed(0)
scale = nn.Parameter(torch.ones(4)).to(torch.float64)
groups = [{"params": [scale], "lr": 0.1}]
optimizer = torch.optim.Adam(groups)
loss = (scale * torch.arange(4.0)).sum()
loss.backward()
optimizer.step()

# told at: scale = nn.Parameter(torch.ones(4)).to(torch.float64)
# fails: can't optimize a non-leaf Tensor
