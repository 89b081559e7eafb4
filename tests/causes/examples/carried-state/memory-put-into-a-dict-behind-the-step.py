import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters())
state = {"memory": torch.zeros(4, 1)}
for _ in range(4):
    features = torch.randn(4, 8)
    out = net(features) + 0.5 * state["memory"]
    loss = (out - features.mean(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    state["memory"] = torch.tanh(out)

# told at: state["memory"] = torch.tanh(out)
# fails: Trying to backward through the graph a second time
