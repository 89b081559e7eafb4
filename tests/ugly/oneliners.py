import torch
x = torch.ones(2)
if x.sum() > 1: y = x + 1
elif x.sum() > 0: y = x + 2
else: y = x + 3
f = lambda t: t.sum() + 1
for i in range(2): y = f(y) * x
def g(t): return t.relu() if t.sum() > 0 else t
class Empty: pass
print([t.sum() for t in (x, y) if t is not None], {k: v + 1 for k, v in {"a": x}.items()}, g(x))
