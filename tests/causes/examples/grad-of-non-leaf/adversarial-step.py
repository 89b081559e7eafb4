import torch
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Linear(6, 3)


def attack(x, y, eps=0.1):
    delta = torch.empty_like(x).uniform_(-eps, eps).requires_grad_()
    x_adv = x + delta
    F.cross_entropy(model(x_adv), y).backward()
    return (x + eps * x_adv.grad.sign()).clamp(-1, 1)


print(attack(torch.rand(4, 6), torch.randint(3, (4,))).shape)

# told at: return (x + eps * x_adv.grad.sign()).clamp(-1, 1)
# fails: 'NoneType' object has no attribute 'sign'
