import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Linear(4, 8), nn.Linear(8, 1)
encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=0.01)
head_optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
accumulation_steps = 4
for number in range(32):
    x = torch.randn(16, 4)
    loss = (head(encoder(x).tanh()) - x.sum(1, keepdim=True)).pow(2).mean() / accumulation_steps
    encoder_optimizer.zero_grad()
    head_optimizer.zero_grad()
    loss.backward()
    if (number + 1) % accumulation_steps == 0:
        encoder_optimizer.step()
        head_optimizer.step()

# told at: encoder_optimizer.zero_grad()
