import torch
from torch import nn

torch.manual_seed(0)
blocks = [nn.Linear(4, 4) for _ in range(150)]
net = nn.Sequential(*blocks, nn.Linear(4, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(5):
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    scores = net(x)
    wrong = (scores.argmax(1) != y).float().mean()
    loss = nn.functional.cross_entropy(scores, y) + wrong
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: wrong = (scores.argmax(1) != y).float().mean()
