import torch
from torch import nn

torch.manual_seed(0)
upscale = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6))
judge = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())
upscale_opt = torch.optim.Adam(upscale.parameters())
judge_opt = torch.optim.Adam(judge.parameters())
for _ in range(3):
    small, large = torch.randn(5, 4), torch.randn(5, 6)
    fake = upscale(small)
    judge.zero_grad()
    real_score = judge(large).mean()
    fake_score = judge(fake).mean()
    judge_loss = 1 - real_score + fake_score
    judge_loss.backward(retain_graph=True)
    judge_opt.step()
    upscale.zero_grad()
    loss = (1 - fake_score) * 0.1 + (fake - large).pow(2).mean()
    loss.backward()
    upscale_opt.step()

# told at: judge_opt.step()
# fails: modified by an inplace operation
