import torch
from torch import nn


class Story(nn.Module):
    """A planner says what is to come, a writer words it; each has a loss and an optimizer of its own."""

    def __init__(self):
        super().__init__()
        self.planner = nn.GRU(4, 6, batch_first=True)
        self.goal = nn.Linear(6, 3)
        self.writer = nn.GRU(4, 6, batch_first=True)
        self.words = nn.Linear(9, 5)

    def parts(self):
        of_planner = [*self.planner.parameters(), *self.goal.parameters()]
        return of_planner, [*self.writer.parameters(), *self.words.parameters()]

    def losses(self, text, target):
        goals = torch.tanh(self.goal(self.planner(text)[0]))
        worded = self.words(torch.cat([self.writer(text)[0], goals], dim=-1))
        direction = 1 - nn.functional.cosine_similarity(goals[:, 1:], goals[:, :-1], dim=-1).mean()
        return direction, nn.functional.cross_entropy(worded.flatten(0, 1), target.flatten())


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizers = tuple(torch.optim.Adam(part, lr=0.01) for part in model.parts())

    def fit(self, batches):
        for text, target in batches:
            self.update(self.model.losses(text, target))

    def update(self, losses):
        for number, (optimizer, loss) in enumerate(zip(self.optimizers, losses)):
            optimizer.zero_grad()
            loss.backward(retain_graph=number < len(losses) - 1)
            optimizer.step()


torch.manual_seed(0)
trainer = Trainer(Story())
trainer.fit([(torch.randn(3, 7, 4), torch.randint(0, 5, (3, 7))) for _ in range(4)])

# told at: optimizer.step()
# fails: modified by an inplace operation
