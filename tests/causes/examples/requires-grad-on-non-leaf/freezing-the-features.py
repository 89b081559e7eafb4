import torch
from torch import nn

torch.manual_seed(0)


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(6, 4), nn.Linear(4, 2)

    def forward(self, x):
        features = self.backbone(x).relu()
        features.requires_grad = False
        return self.head(features)


loss = Probe()(torch.randn(3, 6)).square().mean()
loss.backward()

# told at: features.requires_grad = False
# fails: you can only change requires_grad flags of leaf variables
