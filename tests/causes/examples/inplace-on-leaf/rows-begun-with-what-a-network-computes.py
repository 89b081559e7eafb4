import torch
from torch import nn


class Anchors(nn.Module):
    """One learned anchor for each class: it begins where the first examples of its class lie."""

    def __init__(self, classes, width):
        super().__init__()
        self.anchors = nn.Parameter(torch.randn(classes, width))
        self.met = [False] * classes

    def forward(self, features, label):
        if not self.met[label]:
            row = self.anchors[label]
            row.copy_(features.mean(0))
            self.met[label] = True
        return torch.cdist(features, self.anchors)


torch.manual_seed(0)
encoder, head = nn.Linear(6, 4), Anchors(3, 4)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
for label in (0, 1, 2, 0):
    distances = head(encoder(torch.randn(8, 6)), label)
    loss = nn.functional.cross_entropy(-distances, torch.full((8,), label))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: row.copy_(features.mean(0))
# fails: a view of a leaf Variable that requires grad is being used in an in-place operation
