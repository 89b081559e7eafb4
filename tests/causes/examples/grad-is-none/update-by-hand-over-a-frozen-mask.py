import torch
from torch import nn

torch.manual_seed(0)


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = nn.Parameter((torch.rand(4, 3) > 0.5).float(), requires_grad=False)
        self.weight = nn.Parameter(torch.randn(4, 3))

    def forward(self, x):
        return x @ (self.weight * self.mask).t()


model = nn.Sequential(Masked(), nn.ReLU(), nn.Linear(4, 1))
for step in range(5):
    loss = model(torch.randn(8, 3)).square().mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for param in model.parameters():
            param -= 0.1 * param.grad

# told at: param -= 0.1 * param.grad
# fails: unsupported operand type(s) for *: 'float' and 'NoneType'
