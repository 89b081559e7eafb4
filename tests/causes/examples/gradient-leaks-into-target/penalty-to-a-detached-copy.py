import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
old = {name: p.detach().clone() for name, p in model.named_parameters()}
start = parameters_to_vector(model.parameters()).detach()
for x in torch.randn(10, 16, 4):
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
    for name, p in model.named_parameters():
        loss = loss + 10 * ((p - old[name]) ** 2).sum()
    loss = loss + (parameters_to_vector(model.parameters()) - start).norm()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
