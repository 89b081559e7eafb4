import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scripted = torch.jit.script(model)
source, right = copy.deepcopy(model.state_dict()), 0
for _ in range(12):
    x = torch.randn(1, 6) + 0.1 * torch.randn(8, 6)
    p = model(x).softmax(1).mean(0)
    entropy = -(p * p.log()).sum()
    optimizer.zero_grad()
    entropy.backward()
    optimizer.step()
    with torch.no_grad():
        right += int(scripted(x[:1]).argmax())
    model.load_state_dict(source)
print(right)
