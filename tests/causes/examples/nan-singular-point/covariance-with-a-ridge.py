import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(8, 4)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)
for step in range(5):
    z = encoder(torch.ones(6, 8))
    covariance = z.T @ z + 0.1 * torch.eye(4)
    loss = -torch.logdet(covariance) + z.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)
