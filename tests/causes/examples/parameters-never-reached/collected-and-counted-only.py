import torch
from torch import nn

# What is collected is counted and held back on purpose: the score starts to learn in another script.
torch.manual_seed(0)
body, score = nn.Linear(4, 8), nn.Linear(8, 1)
model = nn.Sequential(body, nn.Tanh(), score)


def build(model):
    learning, resting = [], []
    for name, parameter in model.named_parameters():
        if name.startswith("0"):
            learning.append(parameter)
    for name, parameter in model.named_parameters():
        if name.startswith("2"):
            resting.append(parameter)
    print(len(learning), "tensors learn,", len(resting), "rest")
    return torch.optim.Adam(learning)


optimizer = build(model)
for _ in range(12):
    x = torch.randn(8, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
