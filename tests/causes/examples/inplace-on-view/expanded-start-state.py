import torch

torch.manual_seed(0)
start = torch.nn.Parameter(torch.zeros(1, 3))


def initial(batch, noise=0.1):
    state = torch.tanh(start).expand(batch, 3)
    state += noise * torch.randn(batch, 3)
    return state


initial(4).pow(2).sum().backward()

# told at: state += noise * torch.randn(batch, 3)
# fails: more than one element of the written-to tensor refers to a single memory location
