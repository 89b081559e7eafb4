import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
shared = nn.Linear(4, 8)
choice = nn.Linear(8, 3)
worth = nn.Linear(8, 1)
trained = [*shared.parameters(), *choice.parameters(), *worth.parameters()]
optimizer = torch.optim.Adam(trained, lr=0.01)
for _ in range(6):
    logs, values = [], []
    for turn in range(5):
        hidden = shared(torch.randn(4)).tanh()
        scores = F.log_softmax(choice(hidden), dim=-1)
        card = torch.multinomial(scores.exp(), 1).item()
        logs.append(scores[card])
        values.append(worth(hidden).squeeze())
    better = torch.randn(5) - torch.stack(values)
    loss = -(torch.stack(logs) * better).sum() + better.pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")

# told at: loss = -(torch.stack(logs) * better).sum() + better.pow(2).sum()
