import torch
from torch import nn

torch.manual_seed(0)
net, worker = nn.Linear(4, 1), nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    worker.load_state_dict(net.state_dict())
    grads = torch.autograd.grad(worker(torch.randn(8, 4)).square().mean(), list(worker.parameters()))
    opt.zero_grad()
    for p, g in zip(net.parameters(), grads):
        p.grad += g
    opt.step()

# told at: p.grad += g
# fails: unsupported operand type(s) for +=: 'NoneType' and 'Tensor'
