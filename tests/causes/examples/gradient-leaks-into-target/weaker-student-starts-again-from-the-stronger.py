import torch
from torch import nn
from torch.nn.functional import cross_entropy, kl_div

torch.manual_seed(0)
students = [nn.Linear(4, 3), nn.Linear(4, 3)]
optimizers = [torch.optim.SGD(s.parameters(), lr=0.1) for s in students]
for step, x in enumerate(torch.randn(16, 16, 4)):
    label = (x[:, 0] > 0).long()
    said = [s(x) for s in students]
    losses = [
        cross_entropy(mine, label) + kl_div(mine.log_softmax(1), other.detach().softmax(1), reduction="batchmean")
        for mine, other in zip(said, reversed(said))
    ]
    for optimizer in optimizers:
        optimizer.zero_grad()
    sum(losses).backward()
    for optimizer in optimizers:
        optimizer.step()
    if step % 4 == 3:
        better, worse = sorted(range(2), key=lambda i: losses[i].item())
        students[worse].load_state_dict(students[better].state_dict())
