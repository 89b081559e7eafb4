import torch
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.policy, self.value = nn.Linear(8, 3), nn.Linear(8, 1)

    def forward(self, obs):
        z = self.trunk(obs)
        return self.policy(z), self.value(z).squeeze(-1)


torch.manual_seed(0)
net = TwoHeads()
optimizer = torch.optim.Adam(net.parameters())
logits, values = net(torch.randn(5, 4))
policy_loss = nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0, 1]))
value_loss = (values - torch.randn(5)).pow(2).mean()
optimizer.zero_grad()
policy_loss.backward()
value_loss.backward()
optimizer.step()

# told at: value_loss.backward()
# fails: backward through the graph a second time
