import torch
from torch import nn

torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTMCell(3, 8)
        self.head = nn.Linear(8, 2)
        self.state = (torch.zeros(1, 8), torch.zeros(1, 8))

    def forward(self, obs):
        self.state = self.lstm(obs, self.state)
        return self.head(self.state[0])


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for epoch in range(3):
    logits = policy(torch.randn(1, 3))
    loss = nn.functional.cross_entropy(logits, torch.tensor([epoch % 2]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.state = self.lstm(obs, self.state)
# fails: backward through the graph a second time
