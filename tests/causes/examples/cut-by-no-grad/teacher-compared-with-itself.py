import torch
from torch import nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
student = nn.Linear(6, 3)
optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
for _ in range(8):
    x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
    with torch.no_grad():
        wanted = log_softmax(teacher(x), 1)
    given = log_softmax(student(x), 1)
    near = kl_div(wanted, wanted.exp(), reduction="batchmean")
    loss = cross_entropy(given, y) + 0.5 * near
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: loss = cross_entropy(given, y) + 0.5 * near
