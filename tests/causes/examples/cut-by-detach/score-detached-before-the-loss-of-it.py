import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy, l1_loss

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
judge = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())
for_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
for_judge = torch.optim.Adam(judge.parameters(), lr=1e-3)
for _ in range(8):
    x, real = torch.randn(16, 6), torch.randn(16, 4)
    fake = generator(x)
    score = judge(fake).detach()
    loss = 10 * l1_loss(fake, real) + binary_cross_entropy(score, torch.ones(16, 1))
    for_generator.zero_grad()
    loss.backward()
    for_generator.step()
    found = binary_cross_entropy(judge(real), torch.ones(16, 1))
    found = found + binary_cross_entropy(judge(fake.detach()), torch.zeros(16, 1))
    for_judge.zero_grad()
    found.backward()
    for_judge.step()

# told at: score = judge(fake).detach()
