import torch

torch.manual_seed(0)
weights = torch.zeros(6, requires_grad=True)
x = 1.5 * torch.randn(40, 6)
y = x.sum(1)
optimizer = torch.optim.SGD([weights], lr=0.4)
for _ in range(160):
    loss = (x @ weights - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# The sum below the average has no place in its type; every step was larger than the one before, from the first on.
# told at: loss.backward()
