import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.target = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))

    def follow(self, tau):
        for kept, new in zip(self.target.parameters(), self.online.parameters()):
            kept.data.copy_((1 - tau) * kept.data + tau * new.data)


agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=0.001)
for _ in range(10):
    state, reward, following = torch.randn(32, 4), torch.randn(32), torch.randn(32, 4)
    action = torch.randint(0, 2, (32, 1))
    with torch.no_grad():
        goal = reward + 0.9 * agent.target(following).max(dim=1).values
    loss = F.smooth_l1_loss(agent.online(state).gather(1, action).squeeze(1), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    agent.follow(0.01)

