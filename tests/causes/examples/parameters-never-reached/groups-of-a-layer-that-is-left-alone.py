import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
decayed, plain = [], []
for name, module in model.named_modules():
    if name.startswith("0"):
        continue
    if isinstance(getattr(module, "bias", None), nn.Parameter):
        plain.append(module.bias)
    if isinstance(getattr(module, "weight", None), nn.Parameter):
        decayed.append(module.weight)
optimizer = torch.optim.SGD(plain, lr=0.05)
optimizer.add_param_group({"params": decayed, "weight_decay": 1e-4})
for _ in range(12):
    x = torch.randn(16, 4)
    optimizer.zero_grad()
    (model(x).squeeze(1) - x[:, 0].relu()).square().mean().backward()
    optimizer.step()
