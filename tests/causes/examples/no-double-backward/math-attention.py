import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.manual_seed(0)
q = torch.randn(1, 1, 5, 8, requires_grad=True)
with sdpa_kernel(SDPBackend.MATH):
    y = F.scaled_dot_product_attention(q, q, q)
slope = torch.autograd.grad(y.square().sum(), q, create_graph=True)[0]
slope.norm().backward()
print(q.grad.shape)
