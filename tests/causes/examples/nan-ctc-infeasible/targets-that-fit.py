import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    frames = model(torch.randn(6, 2, 4)).log_softmax(-1)
    target = torch.randint(1, 4, (2, 3))
    lengths = torch.full((2,), target.shape[1])
    return nn.functional.ctc_loss(frames, target, torch.full((2,), 6), lengths)


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)
