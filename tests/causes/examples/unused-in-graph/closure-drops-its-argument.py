import torch
from torch import nn

torch.manual_seed(0)


def smoothness(evaluate, state, epsilon=1e-3):
    noise = (epsilon * torch.randn_like(state)).requires_grad_()
    output = evaluate(state + noise)
    (gradient,) = torch.autograd.grad(output.square().sum(), noise)
    return gradient.norm()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(10, 6), nn.Linear(6, 2)

    def run(self, tokens):
        def evaluate(state):
            return self.out(self.embed(tokens).mean(1))

        return smoothness(evaluate, self.embed(tokens).mean(1).detach())


print(Classifier().run(torch.randint(10, (3, 4))))

# told at: return self.out(self.embed(tokens).mean(1))
# fails: appears to not have been used in the graph
