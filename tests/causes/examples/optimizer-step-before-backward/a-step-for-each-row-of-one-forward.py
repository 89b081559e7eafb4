import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(3):
    scores = net(torch.randn(4, 3))
    for score, answer in zip(scores, torch.randint(0, 2, (4,))):
        loss = nn.functional.cross_entropy(score, answer)
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()

# told at: optimizer.step()
# fails: modified by an inplace operation
