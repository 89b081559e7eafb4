import torch, torch.nn as nn
torch.manual_seed(0)
class Encoder(nn.Module):
    def __init__(self):
        super().__init__(); self.emb = nn.Embedding(20, 16); self.rnn = nn.GRU(16, 16, batch_first=True)
    def forward(self, x):
        return self.rnn(self.emb(x))
class Attention(nn.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Linear(32, 16); self.v = nn.Linear(16, 1, bias=False)
    def forward(self, h, enc):
        e = self.v(torch.tanh(self.w(torch.cat([h.expand(-1, enc.size(1), -1), enc], -1))))
        return (e.softmax(1) * enc).sum(1, keepdim=True)
class Decoder(nn.Module):
    def __init__(self):
        super().__init__(); self.emb = nn.Embedding(20, 16); self.rnn = nn.GRUCell(32, 16); self.out = nn.Linear(16, 20)
    def forward(self, y, ctx, h):
        h = self.rnn(torch.cat([self.emb(y), ctx], -1), h)
        return self.out(h), h
enc, att, dec = Encoder(), Attention(), Decoder()
enc_opt = torch.optim.Adam(enc.parameters(), lr=1e-2)
dec_opt = torch.optim.Adam(dec.parameters(), lr=1e-2)
for it in range(12):
    x = torch.randint(0, 20, (8, 6)); y = x.flip(1)
    outs, h = enc(x); h = h[0]
    loss = 0
    prev = torch.zeros(8, dtype=torch.long)
    for t in range(6):
        ctx = att(h.unsqueeze(1), outs).squeeze(1)
        logits, h = dec(prev, ctx, h)
        loss = loss + nn.functional.cross_entropy(logits, y[:, t])
        prev = y[:, t]
    enc_opt.zero_grad(); dec_opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(enc.parameters(), 1.0)
    torch.nn.utils.clip_grad_norm_(dec.parameters(), 1.0)
    enc_opt.step(); dec_opt.step()
    print(f"{loss.item():.3f}")

# told at: enc_opt = torch.optim.Adam(enc.parameters(), lr=1e-2)
