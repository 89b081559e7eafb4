import torch
from torch import nn

torch.manual_seed(0)


criterion = nn.CTCLoss()


def objective(model, step):
    frames = model(torch.randn(3, 1, 4)).log_softmax(-1)
    target = torch.tensor([[1, 1, 1] if step == 2 else [1, 2, 3]])
    return criterion(frames, target, torch.tensor([3]), torch.tensor([3]))


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return criterion(frames, target, torch.tensor([3]), torch.tensor([3]))
