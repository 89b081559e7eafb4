import torch
from torch import nn

torch.manual_seed(0)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.policy, self.value = nn.LSTM(3, 4), nn.Linear(4, 2), nn.Linear(4, 1)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.01)

    def act(self, seen, hidden):
        out, hidden = self.cell(seen, hidden)
        return self.policy(out).log_softmax(-1), hidden

    def judge(self, seen, hidden):
        out, _ = self.cell(seen, hidden)
        return self.value(out)

    def learn(self, seen, start):
        for _ in range(2):
            value = self.judge(seen, start)
            chances, _ = self.act(seen, start)
            loss = (value - 1).square().mean() - chances[..., 0].mean()
            self.optimizer.zero_grad()
            loss.backward(retain_graph=True)
            self.optimizer.step()


agent = Agent()
hidden = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)
for _ in range(3):
    start, seen = hidden, torch.randn(5, 2, 3)
    for one in seen:
        _, hidden = agent.act(one[None], hidden)
    agent.learn(seen, start)

# told at: loss.backward(retain_graph=True)
# fails: modified by an inplace operation
