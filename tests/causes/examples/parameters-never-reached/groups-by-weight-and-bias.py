import torch
from torch import nn

torch.manual_seed(0)


class Fusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.shares = nn.Parameter(torch.ones(2))
        self.one, self.two = nn.Linear(4, 8), nn.Linear(4, 8)

    def forward(self, x):
        w = self.shares.softmax(0)
        return (w[0] * self.one(x) + w[1] * self.two(x)).relu()


model = nn.Sequential(Fusion(), nn.BatchNorm1d(8), nn.Linear(8, 1))
decayed, plain = [], []
for name, module in model.named_modules():
    if isinstance(getattr(module, "bias", None), nn.Parameter):
        plain.append(module.bias)
    if isinstance(module, nn.BatchNorm1d):
        plain.append(module.weight)
    elif isinstance(getattr(module, "weight", None), nn.Parameter):
        decayed.append(module.weight)
optimizer = torch.optim.SGD(plain, lr=0.05, momentum=0.9)
optimizer.add_param_group({"params": decayed, "weight_decay": 1e-4})
for _ in range(12):
    x = torch.randn(16, 4)
    optimizer.zero_grad()
    (model(x).squeeze(1) - x[:, 0].relu()).square().mean().backward()
    optimizer.step()

# told at: for name, module in model.named_modules():
