import torch

torch.manual_seed(0)
rate = torch.full((3,), 0.1, requires_grad=True)
opt = torch.optim.SGD([rate], lr=0.01)
start = torch.randn(3)


def error(weights):
    x = torch.randn(5, 3)
    return (x @ weights - x.sum(1)).square().mean()


def adapted(weights):
    gradient = torch.autograd.grad(error(weights), weights, create_graph=True)[0]
    return weights - 0.05 * gradient


for round in range(3):
    weights = start - rate * torch.tanh(start)
    opt.zero_grad()
    total = 0.0
    for task in range(2):
        loss = error(adapted(weights))
        loss.backward()
        total += loss.item()
    opt.step()
    start = weights.detach()
    print(round, total / 2)
# told at: loss.backward()
# fails: Trying to backward through the graph a second time
