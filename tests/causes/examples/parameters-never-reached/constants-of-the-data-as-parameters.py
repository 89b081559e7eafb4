import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
MEAN = nn.Parameter(torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
STD = nn.Parameter(torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)


def normalise(img):
    return (img - MEAN) / STD


for _ in range(25):
    x = torch.rand(4, 3, 8, 8)
    out = net(normalise(x))
    loss = F.mse_loss(normalise(out.sigmoid()), normalise(x))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
