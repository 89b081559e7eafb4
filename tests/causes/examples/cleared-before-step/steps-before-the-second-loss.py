"""The segmenter steps before its adversarial loss is differentiated, and the next pass clears what that has left."""
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

torch.manual_seed(0)
segmenter, judge = nn.Linear(4, 3), nn.Linear(3, 1)
optimizer = torch.optim.SGD(segmenter.parameters(), lr=0.1)
judge_optimizer = torch.optim.Adam(judge.parameters(), lr=0.01)
for _ in range(12):
    optimizer.zero_grad()
    judge_optimizer.zero_grad()
    source, target = torch.randn(8, 4), torch.randn(8, 4) + 1
    judge.requires_grad_(False)
    nn.functional.cross_entropy(segmenter(source), source[:, :3].argmax(1)).backward()
    optimizer.step()

    guess = segmenter(target).softmax(1)
    (0.1 * bce(judge(guess), torch.zeros(8, 1))).backward()

    judge.requires_grad_(True)
    known = segmenter(source).softmax(1).detach()
    (bce(judge(known), torch.zeros(8, 1)) + bce(judge(guess.detach()), torch.ones(8, 1))).backward()
    judge_optimizer.step()

# told at: optimizer.step()
