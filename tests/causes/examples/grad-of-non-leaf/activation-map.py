import torch
from torch import nn

torch.manual_seed(0)


class CAM(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 4, 3), nn.Linear(4, 2)

    def forward(self, x):
        self.maps = self.conv(x).relu()
        return self.head(self.maps.mean((2, 3)))


net = CAM()
net(torch.randn(1, 1, 6, 6))[0, 1].backward()
importance = net.maps.grad.mean((2, 3), keepdim=True)
print((importance * net.maps).sum(1).shape)

# told at: importance = net.maps.grad.mean((2, 3), keepdim=True)
# fails: 'NoneType' object has no attribute 'mean'
