import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
terms = []
for _ in range(6):
    probs = policy(torch.randn(4)).softmax(-1)
    action = torch.multinomial(probs, 1)
    terms.append(-probs[action].log() * float(action.item() == 1))
torch.cat(terms).mean().backward()
print(policy[0].weight.grad is not None)
