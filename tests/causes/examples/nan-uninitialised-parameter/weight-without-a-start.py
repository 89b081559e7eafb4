import torch
from torch import nn

torch.manual_seed(0)


torch.utils.deterministic.fill_uninitialized_memory = True
torch.use_deterministic_algorithms(True)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.empty(4))

    def forward(self, x):
        return self.inner(x) * self.weight


def objective(model, step):
    return model(torch.randn(5, 4)).square().mean()


model = Scale()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: self.weight = nn.Parameter(torch.empty(4))
