import torch
from torch import nn


def look(module, grad_input, grad_output):
    print(type(module).__name__, grad_output[0].abs().mean().item() >= 0)


torch.manual_seed(0)
layers = [nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 1)]
network = nn.Sequential(*layers)
layers[0].register_full_backward_hook(look)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(3):
    batch = {"x": torch.randn(5, 4), "y": torch.randn(5, 1)}
    optimizer.zero_grad()
    loss = (network(batch["x"]) - batch["y"]).pow(2).mean()
    loss.backward()
    optimizer.step()

# told at: layers = [nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 1)]
# fails: is a view and is being modified inplace
