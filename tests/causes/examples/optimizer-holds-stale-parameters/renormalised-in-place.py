import torch
from torch import nn

torch.manual_seed(0)
table = nn.Embedding(20, 8)
head = nn.Linear(8, 4)
optimizer = torch.optim.Adam([*table.parameters(), *head.parameters()], lr=1e-2)
x = torch.randint(0, 20, (400,))
for epoch in range(3):
    with torch.no_grad():
        table.weight.copy_(nn.functional.normalize(table.weight, dim=1))
    for i in range(0, 400, 50):
        loss = nn.functional.cross_entropy(head(table(x[i : i + 50])), x[i : i + 50] % 4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
