import torch
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Linear(5, 3)
teacher = torch.nn.Linear(5, 3)
x = torch.randn(8, 5)
with torch.no_grad():
    goal = teacher(x).softmax(-1)
    logits = model(x)
    loss = F.kl_div(logits.log_softmax(-1), goal, reduction="batchmean")
loss.backward()

# told at: with torch.no_grad():
# fails: does not require grad and does not have a grad_fn
