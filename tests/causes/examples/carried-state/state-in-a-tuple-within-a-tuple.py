import torch
from torch import nn

torch.manual_seed(0)


class Worker(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 6)
        self.policy = nn.Linear(6, 2)
        self.value = nn.Linear(6, 1)

    def forward(self, obs, state):
        h, c = self.cell(obs, state)
        return self.policy(h), self.value(h), (h, c)


worker = Worker()
optimizer = torch.optim.Adam(worker.parameters())
done = True
for update in range(3):
    if done:
        h, c = torch.zeros(1, 6), torch.zeros(1, 6)
        done = False
    losses = []
    for _ in range(4):
        logits, value, (h, c) = worker(torch.randn(1, 4), (h, c))
        losses.append(value.pow(2).mean() - logits.log_softmax(-1)[0, 0])
    optimizer.zero_grad()
    torch.stack(losses).sum().backward()
    optimizer.step()

# told at: logits, value, (h, c) = worker(torch.randn(1, 4), (h, c))
# fails: backward through the graph a second time
