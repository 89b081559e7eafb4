import torch
from torch import nn
from torch.amp import GradScaler


class Rig:
    def __init__(self, net, rate):
        self.net = net
        self.opt = torch.optim.AdamW(net.parameters(), lr=rate)


def calibrate(lens, judge, scaler, light):
    image = lens.net(light)
    judge.opt.zero_grad()
    doubt = (judge.net(light) - 1).pow(2).mean() + judge.net(image.detach()).pow(2).mean()
    scaler.scale(doubt).backward()
    scaler.step(judge.opt)
    lens.opt.zero_grad()
    blur = (judge.net(image) - 1).pow(2).mean() + (image - light).abs().mean()
    scaler.scale(blur).backward()
    scaler.step(lens.opt)
    scaler.update()
    for rig in (judge, lens):
        rig.opt.step()


torch.manual_seed(0)
lens, judge = Rig(nn.Linear(6, 6), 1e-3), Rig(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1)), 1e-3)
scaler = GradScaler("cpu", init_scale=1024.0)
for _ in range(8):
    calibrate(lens, judge, scaler, torch.randn(16, 6))

# told at: rig.opt.step()
