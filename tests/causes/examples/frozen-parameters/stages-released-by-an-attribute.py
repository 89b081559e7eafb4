import torch
from torch import nn


class Sorter(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(2))
        self.top = nn.Linear(6, 2)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return self.top(x)


torch.manual_seed(0)
sorter = Sorter()
for p in sorter.stages.parameters():
    p.requires_grad = False
optimizer = torch.optim.AdamW(sorter.parameters(), lr=1e-2)
plan = {1: sorter.stages[1], 2: sorter.stages[0]}
for epoch in range(5):
    if epoch in plan:
        plan[epoch].requires_grad = True
    print(epoch, sum(p.numel() for p in sorter.parameters() if p.requires_grad))
    for _ in range(6):
        x = torch.randn(16, 6)
        loss = nn.functional.cross_entropy(sorter(x), (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# told at: plan[epoch].requires_grad = True
