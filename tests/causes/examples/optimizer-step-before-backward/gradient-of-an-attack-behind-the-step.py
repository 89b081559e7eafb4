"""An attack on a graph: the model learns from its labels, and the gradient by the changes of the graph is added up."""

import torch
from torch import nn

torch.manual_seed(0)
features, labels = torch.randn(8, 5), torch.randint(0, 3, (8,))
changes = torch.zeros(8, 8, requires_grad=True)
layers = nn.ModuleList([nn.Linear(5, 6), nn.Linear(6, 3)])
optimizer = torch.optim.Adam(layers.parameters(), lr=0.01)
total = torch.zeros(8, 8)
for _ in range(6):
    graph = (torch.eye(8) + changes).softmax(1)
    output = graph @ layers[1](graph @ torch.relu(layers[0](features)))
    loss = nn.functional.cross_entropy(output[:4], labels[:4])
    attack = nn.functional.cross_entropy(output[4:], labels[4:])
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    total += torch.autograd.grad(attack, changes)[0]

# told at: optimizer.step()
# fails: modified by an inplace operation
