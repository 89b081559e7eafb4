import torch
from torch import nn

torch.manual_seed(0)


class Trainer:
    def __init__(self):
        self.critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.critic.parameters())

    def penalty(self, real, fake):
        mixed = torch.lerp(real, fake, 0.5).requires_grad_()
        slope, = torch.autograd.grad(self.critic(mixed).sum(), mixed)
        return (slope.norm(dim=1) - 1).square().mean()

    def step(self, real, fake):
        for name in ("score", "penalty"):
            self.optimizer.zero_grad()
            loss = (self.critic(fake) - self.critic(real)).mean() if name == "score" else self.penalty(real, fake)
            loss.backward()
            self.optimizer.step()


Trainer().step(torch.randn(4, 3), torch.randn(4, 3))

# told at: slope, = torch.autograd.grad(self.critic(mixed).sum(), mixed)
# fails: does not require grad and does not have a grad_fn
