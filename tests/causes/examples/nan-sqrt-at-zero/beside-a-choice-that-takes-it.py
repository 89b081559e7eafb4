import torch
from torch import nn

torch.manual_seed(0)


def margins(features, prototypes, kind):
    cosine = nn.functional.normalize(features) @ nn.functional.normalize(prototypes).T
    sine = torch.sqrt((1 - cosine**2).clamp(0, 1))
    shifted = torch.where(cosine > -0.8, 0.9 * cosine - 0.4 * sine, cosine - 0.2)
    wanted = nn.functional.one_hot(kind, prototypes.shape[0]).float()
    return 8 * (wanted * shifted + (1 - wanted) * cosine)


prototypes = nn.Parameter(torch.randn(4, 3))
scale = nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([prototypes, scale], lr=0.1)
for step in range(6):
    features, kind = torch.randn(6, 3), torch.arange(6) % 4
    if step == 3:
        with torch.no_grad():
            prototypes[0] = torch.tensor([0.0, 2.0, 0.0])
        features[0] = torch.tensor([0.0, 3.0, 0.0])
    loss = nn.functional.cross_entropy(margins(features * scale, prototypes, kind), kind)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: sine = torch.sqrt((1 - cosine**2).clamp(0, 1))
