"""The judge keeps its power iteration in parameters that do not learn; its optimizer is cleared and never steps."""
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 2) * 0.3)
        self.u = nn.Parameter(torch.randn(4), requires_grad=False)
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        v = nn.functional.normalize(self.weight.detach().T @ self.u, dim=0)
        self.u.data = nn.functional.normalize(self.weight.detach() @ v, dim=0)
        sigma = self.u.detach() @ self.weight @ v
        return self.last(torch.relu(x @ (self.weight / sigma).T))


torch.manual_seed(0)
artist, judge = nn.Linear(2, 2), Judge()
artist_opt = torch.optim.Adam(artist.parameters())
judge_opt = torch.optim.Adam(judge.parameters())
for _ in range(12):
    fake = artist(torch.randn(8, 2))
    judge_opt.zero_grad()
    right = bce(judge(torch.randn(8, 2) + 1), torch.ones(8, 1))
    (right + bce(judge(fake.detach()), torch.zeros(8, 1))).backward()
    artist_opt.zero_grad()
    bce(judge(fake), torch.ones(8, 1)).backward()
    artist_opt.step()

# told at: (right + bce(judge(fake.detach()), torch.zeros(8, 1))).backward()
