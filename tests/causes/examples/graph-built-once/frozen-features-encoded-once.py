import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Sequential(nn.Linear(5, 6), nn.Tanh()), nn.Linear(6, 2)
with torch.no_grad():
    features = encoder(torch.randn(8, 5))
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for batch in features.split(4):
    loss = head(batch).logsumexp(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
