import torch
from torch import nn

torch.manual_seed(0)


class TinyLM(nn.Module):
    def __init__(self, vocab=7):
        super().__init__()
        self.embed, self.out = nn.Embedding(vocab, 5), nn.Linear(5, vocab)

    def forward(self, tokens):
        return self.out(self.embed(tokens))

    @torch.inference_mode()
    def generate(self, tokens, n=3):
        for _ in range(n):
            step = self(tokens[:, -1:]).argmax(-1)
            tokens = torch.cat([tokens, step], dim=1)
        return tokens


lm = TinyLM()
tokens = lm.generate(torch.zeros(2, 1, dtype=torch.long))
lm(tokens).logsumexp(-1).mean().backward()

# told at: @torch.inference_mode()
# fails: Inference tensors cannot be saved for backward
