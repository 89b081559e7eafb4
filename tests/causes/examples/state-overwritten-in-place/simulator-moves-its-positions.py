import torch
from torch import nn


class Drones:
    def __init__(self, n):
        self.pos, self.vel, self.dt = torch.randn(3, n), torch.zeros(3, n), 0.1

    def step(self, force):
        self.vel = self.vel + force.T * self.dt
        self.pos += self.vel * self.dt
        return self.pos.T

    def cost(self, seen):
        return seen.pow(2).sum(1).mean()


torch.manual_seed(0)
env, policy = Drones(4), nn.Linear(3, 3)
total, seen = 0.0, env.pos.T.clone()
for _ in range(3):
    seen = env.step(policy(seen))
    total = total + env.cost(seen)
total.backward()

# told at: self.pos += self.vel * self.dt
# fails: modified by an inplace operation
