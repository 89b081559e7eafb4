import torch
from torch import nn

torch.manual_seed(0)
model = nn.GRU(3, 8, batch_first=True)
head = nn.Linear(8, 1)
params = [*model.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(params, lr=0.01)
for _ in range(5):
    x = torch.randn(6, 10, 3)
    loss = (head(model(x)[0][:, -1]) - x.sum((1, 2)).unsqueeze(1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(params, 0.5)

# told at: nn.utils.clip_grad_norm_(params, 0.5)
