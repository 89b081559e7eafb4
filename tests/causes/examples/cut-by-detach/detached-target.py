import torch
import torch.nn.functional as F

torch.manual_seed(0)
online, target = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
old, new, reward = torch.randn(6, 4), torch.randn(6, 4), torch.ones(6, 1)
q = online(old).gather(1, torch.zeros(6, 1, dtype=torch.long))
goal = reward + 0.9 * target(new).max(1, keepdim=True).values
F.smooth_l1_loss(q, goal.detach()).backward()
print(online.weight.grad is not None, target.weight.grad is None)
