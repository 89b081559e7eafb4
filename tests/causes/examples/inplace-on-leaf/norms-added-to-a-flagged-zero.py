import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def weight_penalty(layers):
    penalty = torch.tensor(0.0, requires_grad=True).to(layers[0].weight.device)
    for layer in layers:
        penalty += layer.weight.abs().sum()
    return penalty


for step in range(3):
    optimizer.zero_grad()
    fit = (model(torch.randn(8, 3)) - torch.randn(8, 1)).square().mean()
    (fit + 0.01 * weight_penalty([model[0], model[2]])).backward()
    optimizer.step()

# told at: penalty += layer.weight.abs().sum()
# fails: a leaf Variable that requires grad is being used in an in-place operation
