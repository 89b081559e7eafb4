import torch, torch.nn as nn
torch.manual_seed(0)
class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU())
        self.neck = nn.Sequential(nn.Conv2d(16, 16, 1), nn.ReLU())
        self.head = nn.Conv2d(16, 5, 1)
    def forward(self, x):
        return self.head(self.neck(self.backbone(x))).mean((2, 3))
net = Detector()
optimizer = torch.optim.SGD([
    {"params": net.backbone.parameters(), "lr": 1e-3},
    {"params": net.head.parameters(), "lr": 1e-2},
], lr=1e-2, momentum=0.9)
sched = torch.optim.lr_scheduler.StepLR(optimizer, 4)
for epoch in range(4):
    for _ in range(5):
        x = torch.randn(4, 3, 16, 16)
        t = torch.randn(4, 5)
        loss = nn.functional.smooth_l1_loss(net(x), t)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    sched.step()
    print(epoch, f"{loss.item():.4f}")

# told at: optimizer = torch.optim.SGD([
