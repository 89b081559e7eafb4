import torch
from torch import nn


class Fitter:
    def __init__(self, net, rate):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=rate)

    def one_pass(self, pairs):
        scaler = torch.amp.GradScaler("cpu")
        for x, y in pairs:
            self.optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = (self.net(x) - y).pow(2).sum()
            scaler.scale(loss).backward()
            scaler.step(self.optimizer)
            scaler.update()


torch.manual_seed(0)
fitter = Fitter(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)), 1e-5)
for _ in range(9):
    x = 30 * torch.randn(3, 64, 8)
    fitter.one_pass([(part, part.sum(1, keepdim=True)) for part in x])

# told at: scaler = torch.amp.GradScaler("cpu")
