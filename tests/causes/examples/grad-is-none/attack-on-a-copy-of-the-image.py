import torch
from torch import nn

torch.manual_seed(0)


def scores(model, image):
    return torch.softmax(model(torch.tensor(image)), 1)


class Attack:
    def __init__(self, model, image, label, size):
        self.model, self.image, self.label, self.size = model, image, label, size

    def run(self):
        nn.functional.nll_loss(scores(self.model, self.image).log(), self.label).backward()
        return self.image.data + self.size * torch.sign(self.image.grad.data)


model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
for step in range(3):
    picture = torch.rand(1, 4, requires_grad=True)
    moved = Attack(model, picture, torch.tensor([step]), 0.1).run()

# told at: return self.image.data + self.size * torch.sign(self.image.grad.data)
# fails: 'NoneType' object has no attribute 'data'
