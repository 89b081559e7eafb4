import torch
from torch import nn

torch.manual_seed(0)
world, actor, judge = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)
world_optimizer = torch.optim.Adam(world.parameters(), lr=0.01)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=0.01)
judge_optimizer = torch.optim.Adam(judge.parameters(), lr=0.01)


def losses(seen):
    state = world(seen).tanh()
    world_loss = (state - seen).square().mean()
    start = state.detach()
    imagined = []
    for _ in range(3):
        start = world(actor(start).tanh())
        imagined.append(start)
    worth = judge(torch.stack(imagined))
    return world_loss, -worth.mean(), (judge(torch.stack(imagined).detach()) - seen.sum()).square().mean()


for _ in range(4):
    world_loss, actor_loss, judge_loss = losses(torch.randn(5, 4))
    world_optimizer.zero_grad()
    world_loss.backward()
    world_optimizer.step()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
    judge_optimizer.zero_grad()
    judge_loss.backward()
    judge_optimizer.step()

# told at: world_optimizer.step()
# fails: modified by an inplace operation
