import torch
from torch import nn

torch.manual_seed(0)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)
        nn.init.orthogonal_(self.cell.weight, gain=1.3)

    def forward(self, x):
        state = torch.zeros(4)
        for row in x:
            state = self.cell(state) + row
        return state


def objective(model, step):
    return (model(torch.ones(40, 4)) - 1).square().mean()


model = Recurrent()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: loss.backward()
