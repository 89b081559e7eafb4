import torch

torch.manual_seed(0)
net = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(4, 3)
    mass = 1e30 * net(x).abs()
    loss = (mass * mass).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: loss = (mass * mass).mean()
