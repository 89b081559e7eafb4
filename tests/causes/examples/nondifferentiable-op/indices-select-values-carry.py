import torch

torch.manual_seed(0)
model = torch.nn.Linear(6, 3)
logits = model(torch.randn(12, 6))
best = logits.argmax(dim=1)
margin = logits.gather(1, best.unsqueeze(1)) - logits.topk(2, dim=1).values[:, 1:]
hinge = torch.where(margin > 0.5, torch.zeros_like(margin), 0.5 - margin)
hinge.mean().backward()
print(model.weight.grad is not None)
