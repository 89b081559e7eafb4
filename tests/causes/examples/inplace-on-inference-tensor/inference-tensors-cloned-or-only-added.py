import torch

torch.manual_seed(0)
weight = torch.randn(3, requires_grad=True)
with torch.inference_mode():
    baseline, factor = torch.randn(3), torch.randn(3)
((weight - baseline) * factor.clone()).sum().backward()
