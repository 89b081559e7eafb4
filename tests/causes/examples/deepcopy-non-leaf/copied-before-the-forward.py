import copy

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
ema = copy.deepcopy(model)
model(torch.randn(3, 4)).sum().backward()
again = copy.deepcopy(model)
print(again.weight.grad is not None)
