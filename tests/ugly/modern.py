import torch
match torch.ones(2).sum().item():
    case 0 | 1: x = 1
    case float(v) if v > 1:
        x = v + 1
        y = x * 2
    case _:
        x = None
try:
    z = x + 1
except* ValueError as group:
    z = 2
with (open("/dev/null") as f,
      open("/dev/null") as g):
    t = f.read() + g.read()
def f(a, /, b, *, c=1): return a + b + c
print(f(1, 2), [*range(3)], {**{}})
global_lambda = lambda *a, k=1, **kw: (yield_ := a)
