import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.by_task = {"size": nn.Linear(8, 1), "sign": nn.Linear(8, 1)}

    def forward(self, x):
        return {task: head(x) for task, head in self.by_task.items()}


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), Heads())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(12):
    x = torch.randn(16, 4)
    out = model(x)
    loss = (out["size"] - x.norm(dim=1, keepdim=True)).pow(2).mean() + (out["sign"] - x[:, :1].sign()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.by_task = {"size": nn.Linear(8, 1), "sign": nn.Linear(8, 1)}
