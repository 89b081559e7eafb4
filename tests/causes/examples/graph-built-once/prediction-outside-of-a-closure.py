import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.rand(30, 4), torch.rand(30, 1)
model = nn.Linear(4, 1)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
predicted = model(x)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(predicted, y)
    loss.backward()
    return loss


optimizer.step(closure)

# told at: predicted = model(x)
# fails: Trying to backward through the graph a second time
