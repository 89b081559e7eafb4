import torch
from torch import nn

torch.manual_seed(0)


class Pair:
    def __init__(self):
        self.painter = nn.Linear(3, 4)
        self.judge = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
        self.painter_optimizer = torch.optim.Adam(self.painter.parameters(), lr=1e-3)
        self.judge_optimizer = torch.optim.Adam(self.judge.parameters(), lr=1e-3)

    def learn_to_judge(self):
        self.score = self.judge(self.drawn.detach())
        real = self.judge(self.real)
        loss = (real - self.score.mean() - 1).pow(2).mean() + (self.score - real.mean() + 1).pow(2).mean()
        loss.backward()

    def learn_to_paint(self):
        score = self.judge(self.drawn)
        real = self.judge(self.real)
        loss = (self.drawn - self.real).abs().mean()
        loss = loss + (self.score - real.mean() - 1).pow(2).mean()
        loss.backward()

    def learn(self, real):
        self.real = real
        self.drawn = self.painter(torch.randn(6, 3))
        self.judge_optimizer.zero_grad()
        self.learn_to_judge()
        self.judge_optimizer.step()
        self.painter_optimizer.zero_grad()
        self.learn_to_paint()
        self.painter_optimizer.step()


pair = Pair()
for _ in range(3):
    pair.learn(torch.randn(6, 4))

# told at: loss = loss + (self.score - real.mean() - 1).pow(2).mean()
# fails: backward through the graph a second time
