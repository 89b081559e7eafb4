import torch
from torch import nn

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.head = nn.Linear(8, 1)
        self.freeze_backbone()

    def freeze_backbone(self):
        for p in self.backbone.parameters():
            p.requires_grad = False

    def train(self, mode=True):
        super().train(mode)
        if mode:
            self.freeze_backbone()
        return self

    def forward(self, x):
        return self.head(self.backbone(x))


def warm_up(module):
    module.backbone.requires_grad_(False)


model = Tagger()
for p in model.backbone.parameters():
    p.requires_grad = True
warm_up(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for epoch in range(4):
    model.train()
    for _ in range(5):
        x = torch.randn(16, 4)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    print(f"{epoch} {loss.item():.4f}")
