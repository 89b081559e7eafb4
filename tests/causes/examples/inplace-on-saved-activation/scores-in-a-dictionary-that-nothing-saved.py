import torch
from torch import nn


class Grader(nn.Module):
    def __init__(self, subjects):
        super().__init__()
        self.marks = nn.ModuleDict({s: nn.Linear(6, 1) for s in subjects})

    def raise_by(self, scores, subject, related):
        scores[subject] += 0.5 * scores[related]

    def forward(self, answers):
        scores = {subject: mark(answers) for subject, mark in self.marks.items()}
        self.raise_by(scores, "physics", "maths")
        self.raise_by(scores, "music", "physics")
        return torch.cat(list(scores.values()), dim=1).sigmoid()


torch.manual_seed(0)
grader = Grader(["maths", "physics", "music"])
optimizer = torch.optim.SGD(grader.parameters(), lr=0.1)
for _ in range(3):
    loss = (grader(torch.randn(8, 6)) - torch.rand(8, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
