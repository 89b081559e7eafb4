import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
student, teacher = nn.Linear(6, 5), nn.Linear(6, 5)
optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
for step in range(5):
    x = torch.randn(4, 6)
    own = F.log_softmax(student(x), dim=1)
    given = teacher(x).detach()
    loss = F.kl_div(own, given, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: loss = F.kl_div(own, given, reduction="batchmean")
