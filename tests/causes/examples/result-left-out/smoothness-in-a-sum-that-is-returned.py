import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.GRU(4, 8, batch_first=True)
head = nn.Linear(8, 1)
opt = torch.optim.RMSprop([*net.parameters(), *head.parameters()], lr=1e-3)
x = torch.randn(16, 12, 4)


def compute(x):
    out, _ = net(x)
    pred = head(out)
    main = (pred[:, :-1, 0] - x[:, 1:, 0]).pow(2).mean()
    slow = (out[:, 1:] - out[:, :-1]).pow(2).mean()
    total = main + 0.5 * slow
    return total, main, slow


history = []
for step in range(12):
    total, main, slow = compute(x)
    opt.zero_grad()
    main.backward()
    opt.step()
    history.append((total.item(), main.item(), slow.item()))
print(history[-1])
# told at: main.backward()
