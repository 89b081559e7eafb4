import torch

torch.manual_seed(0)
G, D = torch.nn.Linear(2, 4), torch.nn.Linear(4, 1)
opt_g = torch.optim.Adam(G.parameters())
opt_d = torch.optim.Adam(D.parameters())


def step_d(real):
    G.requires_grad_(False)
    loss = D(G(torch.randn(3, 2))).mean() - D(real).mean()
    opt_d.zero_grad()
    loss.backward()
    opt_d.step()


def step_g():
    D.requires_grad_(False)
    loss = -D(G(torch.randn(3, 2))).mean()
    opt_g.zero_grad()
    loss.backward()
    opt_g.step()


for _ in range(2):
    step_d(torch.randn(3, 4))
    step_g()

# told at: G.requires_grad_(False)
# fails: does not require grad and does not have a grad_fn
