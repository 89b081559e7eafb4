import random
from collections import deque

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
valuer = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(valuer.parameters())
memory = deque(maxlen=50)


def learn():
    states, worths, paid = zip(*random.sample(memory, 4))
    states = torch.stack(states)
    worths = torch.stack(worths)
    loss = (worths - torch.tensor(paid)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for step in range(30):
    state = torch.randn(4)
    memory.append((state, valuer(state).max(), float(state.sum())))
    if step > 6:
        learn()

# told at: memory.append((state, valuer(state).max(), float(state.sum())))
# fails: a second time
