import torch
from torch import nn

torch.manual_seed(0)


class Layer(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.linear = nn.Linear(first, second)

    def forward(self, x):
        return self.squashed(self.linear(x))

    def squashed(self, x):
        return torch.tanh(x)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(Layer(5, 6), Layer(6, 4))
        self.head = nn.Linear(4, 1)

    def features(self, x):
        return self.inner(x)

    def forward(self, x):
        hidden = self.features(x)
        return torch.sigmoid(self.head(hidden)), hidden


class Trainer:
    def __init__(self):
        self.maker, self.critic = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 5)), Critic()
        self.m_optimizer = torch.optim.RMSprop(self.maker.parameters())
        self.c_optimizer = torch.optim.RMSprop(self.critic.parameters())

    def reward(self, made):
        chosen = torch.softmax(made, -1).max(-1)[1]
        return torch.from_numpy(chosen.numpy() / 5.0).float().unsqueeze(1)

    def update(self, real):
        made = torch.softmax(self.maker(torch.randn(8, 3)), -1)
        worth_real, _ = self.critic(real)
        worth_made, _ = self.critic(made)
        paid_real = torch.rand(8, 1)
        paid_made = self.reward(made)
        valued = ((worth_real - paid_real).abs() + (worth_made - paid_made).abs()).mean()
        wanted = -worth_made.mean()
        self.m_optimizer.zero_grad()
        self.c_optimizer.zero_grad()
        wanted.backward(retain_graph=True)
        self.m_optimizer.step()
        valued.backward()
        self.c_optimizer.step()


trainer = Trainer()
for step in range(4):
    trainer.update(torch.rand(8, 5))

# told at: valued = ((worth_real - paid_real).abs() + (worth_made - paid_made).abs()).mean()
# fails: modified by an inplace operation
