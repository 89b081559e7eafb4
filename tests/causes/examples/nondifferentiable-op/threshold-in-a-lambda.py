import torch

torch.manual_seed(0)
net = torch.nn.Linear(5, 1)
overlap = lambda scores, mask: ((scores > 0).float() * mask).sum() / mask.sum()
x, mask = torch.randn(10, 5), torch.ones(10, 1)
loss = 1 - overlap(net(x), mask)
loss.backward()

# told at: overlap = lambda scores, mask: ((scores > 0).float() * mask).sum() / mask.sum()
# fails: does not require grad and does not have a grad_fn
