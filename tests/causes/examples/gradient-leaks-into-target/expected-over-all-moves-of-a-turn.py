import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
shared = nn.Linear(4, 8)
choice = nn.Linear(8, 3)
worth = nn.Linear(8, 3)
trained = [*shared.parameters(), *choice.parameters(), *worth.parameters()]
optimizer = torch.optim.Adam(trained, lr=0.01)
for _ in range(6):
    hidden = shared(torch.randn(5, 4)).tanh()
    scores = F.log_softmax(choice(hidden), dim=-1)
    error = torch.randn(5, 3) - worth(hidden)
    loss = error.pow(2).sum()
    for turn in range(5):
        loss = loss + (scores[turn].exp() * error[turn]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")
