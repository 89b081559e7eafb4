import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
criterion = nn.CrossEntropyLoss()


def perturb(x, y):
    shift = torch.zeros_like(x, requires_grad=True)
    for _ in range(2):
        loss = criterion(model(x + shift), y)
        loss.backward()
        shift.data = (shift + 0.1 * shift.grad.sign()).clamp(-0.3, 0.3)
        shift.grad = None
    return shift.detach()


def evaluate(batches):
    wrong = 0
    with torch.no_grad():
        for x, y in batches:
            shift = perturb(x, y)
            wrong += (model(x + shift).argmax(1) != y).sum().item()
    return wrong


optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [(torch.randn(6, 5), torch.randint(0, 3, (6,))) for _ in range(2)]
for x, y in batches:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
print(evaluate(batches))

# told at: with torch.no_grad():
# fails: does not require grad and does not have a grad_fn
