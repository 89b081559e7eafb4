import torch
from torch import nn

torch.manual_seed(0)
learner = nn.Linear(4, 2)
actors = [learner, nn.Linear(4, 2)]
optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
weights = learner.state_dict()
for _ in range(12):
    for actor in actors:
        actor.load_state_dict(weights)
    x = torch.randn(8, 4)
    with torch.no_grad():
        action = torch.stack([actor(x) for actor in actors]).sum(0).argmax(1)
    optimizer.zero_grad()
    nn.functional.cross_entropy(learner(x), action).backward()
    optimizer.step()
