import math

import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self, anchors=3, classes=2):
        super().__init__()
        self.head = nn.Conv2d(4, anchors * (5 + classes), 1)
        for stride in (8,):
            prior = self.head.bias.view(anchors, -1)
            prior[:, 4] += math.log(8 / (640 / stride) ** 2)
            prior[:, 5:] += math.log(0.6 / (classes - 0.99))
            self.head.bias = nn.Parameter(prior.view(-1), requires_grad=True)

    def forward(self, image):
        return self.head(image)


torch.manual_seed(0)
net = Detector()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    loss = net(torch.randn(1, 4, 6, 6)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: prior[:, 4] += math.log(8 / (640 / stride) ** 2)
# fails: a view of a leaf Variable that requires grad is being used in an in-place operation
