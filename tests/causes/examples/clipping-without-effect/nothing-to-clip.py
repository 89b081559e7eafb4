import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")  # of PyTorch, which says that the second generator is empty

torch.manual_seed(0)
backbone, head = nn.Linear(4, 8), nn.Linear(8, 1)
backbone.requires_grad_(False)
trained = list(filter(lambda p: p.requires_grad, backbone.parameters()))
gains = (p for name, p in head.named_parameters() if "gain" in name)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(10):
    loss = head(torch.tanh(backbone(torch.randn(8, 4)))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(trained, 0.1)
    nn.utils.clip_grad_norm_(gains, 0.1)
    nn.utils.clip_grad_norm_(head.parameters(), 1.0)
    optimizer.step()
