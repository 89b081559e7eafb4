import torch
from torch import nn

torch.manual_seed(0)
planner, rater = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
p_optimizer = torch.optim.SGD(planner.parameters(), lr=0.1)
r_optimizer = torch.optim.SGD(rater.parameters(), lr=0.1)


def losses(seen, marks):
    of_plans, of_seen = rater(torch.cat([planner(torch.randn(4, 3)), seen])).split(4)
    return {"plans": -of_plans.mean(), "seen": (of_seen - marks).pow(2).mean()}


for _ in range(3):
    loss = losses(torch.randn(4, 2), torch.randn(4, 1))
    loss["plans"].backward()
    p_optimizer.step()
    p_optimizer.zero_grad()
    r_optimizer.zero_grad()
    loss["seen"].backward()
    r_optimizer.step()
    r_optimizer.zero_grad()

# told at: loss["seen"].backward()
# fails: Trying to backward through the graph a second time
