import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
scale = torch.nn.Parameter(torch.ones(1))
learned = torch.optim.SGD(model.parameters(), lr=5.0)
other = torch.optim.SGD([scale], lr=0.001)
for step in range(60):
    x = torch.randn(32, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    learned.zero_grad()
    loss.backward()
    learned.step()
    side = (scale - 2.0).pow(2).sum()
    other.zero_grad()
    side.backward()
    other.step()

# Two optimizers step; the gradients of the one that steps first explode, and it is the one to be bounded.
# told at: loss.backward()
