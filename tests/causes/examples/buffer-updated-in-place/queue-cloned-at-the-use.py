import torch
from torch import nn

torch.manual_seed(0)
encoder, queue = nn.Linear(6, 4), torch.randn(4, 10)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for i in range(3):
    q = encoder(torch.randn(2, 6))
    logits = q @ queue.clone()
    with torch.no_grad():
        queue[:, 2 * i : 2 * i + 2] = q.T
    optimizer.zero_grad()
    logits.logsumexp(1).mean().backward()
    optimizer.step()
