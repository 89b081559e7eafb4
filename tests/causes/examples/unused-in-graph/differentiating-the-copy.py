import torch

torch.manual_seed(0)
critic = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
real, fake = torch.randn(5, 3), torch.randn(5, 3)
mixed = (0.5 * real + 0.5 * fake).requires_grad_()
score = critic(mixed)
rows = mixed.view(-1)
gradient = torch.autograd.grad(score.sum(), rows, create_graph=True)[0]
penalty = (gradient.norm() - 1) ** 2
penalty.backward()

# told at: gradient = torch.autograd.grad(score.sum(), rows, create_graph=True)[0]
# fails: appears to not have been used in the graph
