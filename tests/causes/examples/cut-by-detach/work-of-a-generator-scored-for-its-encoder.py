import torch
from torch import nn
from torch.nn.functional import l1_loss, mse_loss

torch.manual_seed(0)
encoder, generator, judge = nn.Linear(6, 8), nn.Linear(8, 4), nn.Linear(12, 1)
for_encoder, for_generator, for_judge = (
    torch.optim.Adam(net.parameters(), lr=1e-3) for net in (encoder, generator, judge)
)
for _ in range(10):
    x, real = torch.randn(16, 6), torch.randn(16, 4)
    code = encoder(x)
    fake = generator(code)
    score = judge(torch.cat([fake.detach(), code], 1))
    for_generator.zero_grad()
    for_encoder.zero_grad()
    (10 * l1_loss(fake, real) + mse_loss(score, torch.ones(16, 1))).backward()
    for_generator.step()

    code = encoder(x).detach()
    found = mse_loss(judge(torch.cat([real, code], 1)), torch.ones(16, 1))
    found = found + mse_loss(judge(torch.cat([fake.detach(), code], 1)), torch.zeros(16, 1))
    for_judge.zero_grad()
    found.backward()
    for_judge.step()
    for_encoder.step()
