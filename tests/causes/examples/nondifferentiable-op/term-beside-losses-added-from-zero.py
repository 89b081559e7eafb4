import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
for step in range(8):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    h = torch.relu(body(x))
    scores = head(h)
    wrong = (torch.argmax(scores, dim=1) != y).float().mean()
    own = 0
    own += nn.functional.cross_entropy(scores, y) + 0.1 * h.pow(2).mean()
    loss = own + wrong
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: wrong = (torch.argmax(scores, dim=1) != y).float().mean()
