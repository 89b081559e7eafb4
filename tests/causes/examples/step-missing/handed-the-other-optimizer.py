"""One optimizer is handed over for both: the judge's own never steps, and the modules clear the gradients."""
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce


def epoch(artist, judge, artist_opt, judge_opt, batches):
    for real in batches:
        fake = artist(torch.randn(8, 2))
        judge.requires_grad_(False)
        artist.zero_grad()
        bce(judge(fake), torch.ones(8, 1)).backward()
        artist_opt.step()
        judge.requires_grad_(True)
        judge.zero_grad()
        loss = bce(judge(real), torch.ones(8, 1)) + bce(judge(fake.detach()), torch.zeros(8, 1))
        loss.backward()
        judge_opt.step()


torch.manual_seed(0)
drawn, judged = nn.Linear(2, 2), nn.Linear(2, 1)
artist_opt = torch.optim.Adam(drawn.parameters())
judge_opt = torch.optim.Adam(judged.parameters())
for _ in range(3):
    epoch(
        drawn,
        judged,
        artist_opt,
        artist_opt,
        [torch.randn(8, 2) + 1 for _ in range(4)],
    )

# told at: artist_opt,
