import torch
from torch import nn

torch.manual_seed(0)
table, head = nn.Embedding(20, 8), nn.Linear(8, 3)
sparse = torch.optim.SGD(table.parameters(), lr=1e-4)
dense = torch.optim.Adam(head.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
for _ in range(10):
    words, topic = torch.randint(20, (32,)), torch.randint(3, (32,))
    sparse.zero_grad()
    dense.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(head(table(words)), topic)
    scaler.scale(loss).backward()
    scaler.step(dense)
    sparse.step()
    scaler.update()

# told at: sparse.step()
