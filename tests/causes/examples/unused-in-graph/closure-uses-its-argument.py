import torch

torch.manual_seed(0)
embed, out = torch.nn.Embedding(10, 6), torch.nn.Linear(6, 2)
state = embed(torch.randint(10, (3, 4))).mean(1).detach()
noise = (1e-3 * torch.randn_like(state)).requires_grad_()
evaluate = lambda s: out(s)
(gradient,) = torch.autograd.grad(evaluate(state + noise).square().sum(), noise)
print(gradient.shape)
