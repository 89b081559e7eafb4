import torch
from torch import nn

torch.manual_seed(0)
first = nn.Parameter(torch.rand(4))
renew, answer, guess = nn.GRUCell(4, 4), nn.GRUCell(4, 4), nn.Linear(8, 4)
optimizer = torch.optim.SGD([first, *renew.parameters(), *answer.parameters(), *guess.parameters()], lr=0.1)
askers, things = first.repeat(6, 1), first.repeat(5, 1)

for epoch in range(2):
    loss = 0
    for number in range(12):
        rows, last = torch.randperm(6)[:3], torch.randperm(5)[:3]
        before = things[last, :]
        seen = askers[rows, :]
        loss += guess(torch.cat([seen, before], 1)).square().mean()
        met = things[rows % 5, :]
        fresh, replied = renew(met, seen), answer(seen, met)
        things[rows % 5, :] = replied
        askers[rows, :] = fresh
        if number % 3 == 2:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            loss = 0
    print(things.detach().norm() > 0)
    askers = first.repeat(6, 1)
    things = first.repeat(5, 1)

# told at: things[rows % 5, :] = replied
# fails: modified by an inplace operation
