import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
speak, hear = nn.Linear(4, 6), nn.Linear(6, 4)
optimizer = torch.optim.Adam([*speak.parameters(), *hear.parameters()], lr=0.01)
for step in range(24):
    seen = torch.randn(16, 4)
    words = Categorical(logits=speak(seen))
    said = words.sample()
    errors = (hear(F.one_hot(said, 6).float()) - seen).pow(2).sum(1)
    loss = errors.mean()
    if step >= 10:  # first the listener learns
        loss = loss + (words.log_prob(said) * (errors - errors.mean()).detach()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
