import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class LoRALinear(nn.Module):
    def __init__(self, base, r=4):
        super().__init__()
        self.base = base
        self.lora_a = nn.Parameter(torch.randn(r, base.in_features) * 0.01)
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, r))

    def forward(self, x):
        return self.base(x) + x @ self.lora_a.t() @ self.lora_b.t()


class Model(nn.Module):
    def __init__(self, vocab=200, d=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.fc1, self.fc2 = LoRALinear(nn.Linear(d, d)), LoRALinear(nn.Linear(d, d))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        return self.head(self.fc2(self.fc1(self.embed(ids)).relu()).relu())


model = Model()
modules_to_save = ("embed", "head")
trained = [p for n, p in model.named_parameters() if "lora_" in n or n.startswith(modules_to_save)]
optimizer = torch.optim.AdamW(trained, lr=1e-3)
for _ in range(30):
    ids = torch.randint(0, 200, (8, 12))
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
