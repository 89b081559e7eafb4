import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
class ArcFace(nn.Module):
    def __init__(self, dim, classes, s=16.0, m=0.2):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, dim))
        nn.init.xavier_uniform_(self.weight)
        self.s, self.m = s, m
    def forward(self, x, y):
        cos = F.linear(F.normalize(x), F.normalize(self.weight)).clamp(-0.999, 0.999)
        target = torch.cos(torch.acos(cos) + self.m)
        hot = F.one_hot(y, cos.size(1)).float()
        return F.cross_entropy(self.s * (hot * target + (1 - hot) * cos), y)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32))
criterion = ArcFace(32, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
centres = torch.randn(10, 16)
for epoch in range(3):
    for step in range(8):
        y = torch.randint(0, 10, (32,))
        x = centres[y] + 0.5 * torch.randn(32, 16)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, f"{loss.item():.3f}")

# told at: optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
