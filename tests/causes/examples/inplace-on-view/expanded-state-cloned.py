import torch

torch.manual_seed(0)
start = torch.nn.Parameter(torch.zeros(1, 3))
state = torch.tanh(start).expand(4, 3).clone()
state += 0.1 * torch.randn(4, 3)
state.pow(2).sum().backward()
