import torch
import torch.nn.functional as F

torch.manual_seed(0)
online, target = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
target.requires_grad_(False)


def td_loss(old, new, reward, gamma=0.9):
    q = online(old).gather(1, torch.zeros(len(old), 1, dtype=torch.long))
    goal = reward + gamma * target(new).max(1, keepdim=True).values
    return F.smooth_l1_loss(q.data, goal)


batch = torch.randn(6, 4), torch.randn(6, 4), torch.ones(6, 1)
td_loss(*batch).backward()

# told at: return F.smooth_l1_loss(q.data, goal)
# fails: does not require grad and does not have a grad_fn
