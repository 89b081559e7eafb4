import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Linear(4, 1)
optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
one = torch.FloatTensor([1])
minus_one = one * -1
for _ in range(4):
    optimizer.zero_grad()
    real = critic(torch.randn(8, 4)).mean()
    real.backward(minus_one)
    fake = critic(torch.randn(8, 4) - 1).mean()
    fake.backward(one)
    optimizer.step()

# told at: one = torch.FloatTensor([1])
# fails: Mismatch in shape: grad_output[0]
