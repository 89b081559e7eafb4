import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, classes)

    def forward(self, x):
        return self.head(self.body(x).relu())


def build():
    model = Net(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4)
    model.head = nn.Linear(model.head.in_features, 3)
    return model, optimizer, scheduler


torch.manual_seed(0)
model, optimizer, scheduler = build()
for _ in range(12):
    optimizer.zero_grad()
    cross_entropy(model(torch.randn(16, 4)), torch.randint(3, (16,))).backward()
    optimizer.step()
    scheduler.step()

# told at: model.head = nn.Linear(model.head.in_features, 3)
