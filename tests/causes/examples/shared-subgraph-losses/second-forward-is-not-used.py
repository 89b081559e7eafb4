import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(20, 8), nn.Flatten(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def loss_of(outputs, labels):
    return nn.functional.cross_entropy(outputs, labels)


for _ in range(4):
    words, labels = torch.randint(0, 20, (8, 4)), torch.randint(0, 3, (8,))
    outputs = model(words)
    loss = loss_of(outputs, labels)
    optimizer.zero_grad()
    loss.backward()
    table = model[0].weight
    kept = table.data.clone()
    table.data += 0.1 * table.grad / table.grad.norm()
    logits = model(words)
    loss_adv = loss_of(outputs, labels)
    loss_adv.backward()
    table.data = kept
    optimizer.step()

# told at: loss.backward()
# fails: Trying to backward through the graph a second time
