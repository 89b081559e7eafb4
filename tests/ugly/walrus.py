import torch
x = torch.ones(3)
while (total := x.sum()) < 10:
    x = x + 1; print(total)
if (n := len(x)) > 2 and (m := x.max()) > n: print(f"{(k := n + 1)} {m!r:>10}")
values = [y for t in x if (y := t * 2) is not None]
print((z := x + 1), z, values)
