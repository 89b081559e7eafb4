import torch
from torch import nn

torch.manual_seed(0)


class Agent:
    def __init__(self):
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.head = nn.Linear(8, 2)

    @torch.no_grad()
    def logits(self, obs):
        return self.head(self.body(obs))

    def act(self, obs):
        return self.logits(obs).argmax().item()

    def imitate(self, obs, action):
        return nn.functional.cross_entropy(self.logits(obs), action)


agent = Agent()
print(agent.act(torch.randn(4)))
loss = agent.imitate(torch.randn(6, 4), torch.randint(2, (6,)))
loss.backward()

# told at: @torch.no_grad()
# fails: does not require grad and does not have a grad_fn
