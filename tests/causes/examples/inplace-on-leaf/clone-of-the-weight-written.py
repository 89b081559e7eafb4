import torch
from torch import nn

torch.manual_seed(0)
embed = nn.Embedding(6, 4)
nn.init.normal_(embed.weight)
weight = embed.weight.clone()
weight[0] = 0.0
nn.functional.embedding(torch.tensor([[1, 2, 0]]), weight).sum().backward()
