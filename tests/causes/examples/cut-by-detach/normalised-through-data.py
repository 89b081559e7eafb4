import torch
from torch import nn
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
encoder, classifier = nn.Linear(6, 4), nn.Linear(4, 2)
optimizer = torch.optim.SGD([*encoder.parameters(), *classifier.parameters()], lr=0.1)
sizes = []
for _ in range(16):
    x = torch.randn(16, 6)
    features = encoder(x)
    size = features.norm(dim=1, keepdim=True)
    unit = features.data / size.data
    loss = cross_entropy(classifier(unit), (x.sum(1) > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    sizes.append(size.mean().item())

# told at: unit = features.data / size.data
