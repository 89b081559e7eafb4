import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.choice = nn.Linear(8, 3)
        self.worth = nn.Linear(8, 1)

    def forward(self, x):
        h = self.body(x).tanh()
        return self.choice(h), self.worth(h).squeeze(-1)


agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=0.01)
for _ in range(8):
    seen, taken, returns = torch.randn(16, 4), torch.randint(3, (16,)), torch.randn(16)
    scores, worth = agent(seen)
    advantage = returns - worth
    chosen = F.log_softmax(scores, dim=-1).gather(1, taken[:, None]).squeeze(1)
    loss = -(chosen * advantage).mean() + 0.5 * advantage.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")

# told at: loss = -(chosen * advantage).mean() + 0.5 * advantage.pow(2).mean()
