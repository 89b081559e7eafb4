import torch
from torch import nn


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.Conv1d(1, 12, 5, stride=3)
        self.offset = nn.Parameter(1e-3 * torch.randn(12, 1))

    @torch.no_grad()
    def forward(self, wave):
        heard = self.filters(wave).relu()
        return heard + self.offset


torch.manual_seed(0)
listener, judge = Listener(), nn.Sequential(nn.Flatten(), nn.Linear(12 * 12, 2))
groups = [{"params": listener.parameters(), "lr": 1e-3}, {"params": judge.parameters()}]
optimizer = torch.optim.Adam(groups, lr=1e-2)
for step in range(30):
    label = torch.randint(0, 2, (16,))
    wave = torch.randn(16, 1, 38) + label.view(-1, 1, 1)
    loss = nn.functional.cross_entropy(judge(listener(wave)), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: @torch.no_grad()
