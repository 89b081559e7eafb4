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
    pairs = [(world_loss, world), (actor_loss, actor), (judge_loss, judge)]
    for loss, own in pairs:
        own.zero_grad()
        loss.backward(inputs=list(own.parameters()))
    for optimizer in (world_optimizer, actor_optimizer, judge_optimizer):
        optimizer.step()
