import torch

torch.manual_seed(0)
amplitude = torch.nn.Parameter(torch.tensor(0.5))
optimizer = torch.optim.SGD([amplitude], lr=0.1)
memo = {}


def boundary(points, key="boundary"):
    if key not in memo:
        memo[key] = torch.sin(amplitude * points)
    return memo[key]


grid = torch.linspace(0, 1, 8)
for _ in range(3):
    loss = (boundary(grid) - grid).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: memo[key] = torch.sin(amplitude * points)
# fails: backward through the graph a second time
