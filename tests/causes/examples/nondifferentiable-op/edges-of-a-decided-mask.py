import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Conv2d(1, 2, 3, padding=1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
slope = torch.Tensor([[1.0, 0.0, -1.0]] * 3).view(1, 1, 3, 3)


def roughness(scores):
    mask = scores.argmax(1, keepdim=True).float()
    return F.conv2d(mask, slope).abs().mean()


for _ in range(8):
    x, wanted = torch.randn(2, 1, 12, 12), torch.randint(2, (2, 12, 12))
    scores = net(x)
    loss = F.cross_entropy(scores, wanted) + 0.5 * roughness(scores)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")

# told at: mask = scores.argmax(1, keepdim=True).float()
