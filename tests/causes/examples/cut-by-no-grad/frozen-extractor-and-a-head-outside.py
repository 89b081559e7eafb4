import torch
import torch.nn.functional as F

torch.manual_seed(0)
backbone, head = torch.nn.Linear(5, 8), torch.nn.Linear(8, 3)


@torch.no_grad()
def features(x):
    return backbone(x).relu()


loss = F.cross_entropy(head(features(torch.randn(8, 5))), torch.randint(3, (8,)))
loss.backward()
print(head.weight.grad is not None, backbone.weight.grad is None)
