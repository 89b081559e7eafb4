import torch
from torch import nn

torch.manual_seed(0)
embed, dense = nn.Embedding(6, 4), nn.Linear(4, 4)
old, new = embed.weight[1], embed.weight[2]
size = dense.weight[:, 3].norm()
with torch.no_grad():
    dense.weight[:, 3] -= old * size / old.norm()
    dense.weight[:, 3] += new * size / new.norm()
print(dense(embed(torch.tensor([1, 3]))).shape)
