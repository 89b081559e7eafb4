import torch
import torch.nn.functional as F

torch.manual_seed(0)
encoder = torch.nn.Linear(6, 2)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
x, y = torch.randn(8, 6), torch.randn(8, 2)
history = []
for step in range(3):
    values = [F.mse_loss(encoder(x), y), 0.1 * encoder(x).abs().mean()]
    loss = torch.stack(values).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(torch.tensor([v.item() for v in values]))
print(len(history))
