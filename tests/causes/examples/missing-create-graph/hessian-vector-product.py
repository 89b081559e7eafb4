import torch

torch.manual_seed(0)
policy = torch.nn.Linear(4, 3)
obs = torch.randn(10, 4)


def fisher_times(vector):
    logp = policy(obs).log_softmax(-1)
    kl = (logp.exp().detach() * (logp.detach() - logp)).sum(-1).mean()
    grads = torch.autograd.grad(kl, policy.parameters())
    flat = torch.cat([g.reshape(-1) for g in grads])
    return torch.autograd.grad(flat @ vector, policy.parameters())


print(len(fisher_times(torch.ones(15))))

# told at: grads = torch.autograd.grad(kl, policy.parameters())
# fails: does not require grad and does not have a grad_fn
