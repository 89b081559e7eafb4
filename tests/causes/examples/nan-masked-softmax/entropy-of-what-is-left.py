import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
mask = torch.zeros(6)
mask[4:] = float("-inf")


def objective(model, step):
    scores = model(torch.randn(5, 4)) + mask
    return -torch.log_softmax(scores, dim=-1)[:, 0].mean() - 0.01 * Categorical(logits=scores).entropy().mean()


model = nn.Linear(4, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)
