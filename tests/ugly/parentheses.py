import torch
x = torch.ones(3)
y = ((x + 1))
z = ( # one
    ( # two
        x * 2 # three
    ) # four
) + 1
print((x), (x + y), *(x, y), **{"end": ("\n")})
w = (x)[(0)]; v = (torch).ones((3)); u = -(x + y) ** 2
a, (b, c) = (x, (y, (z)))
t = (x,)
for (i) in (range(2)): (y) = (y + i)
(x.sum())
del (t)
def f(a=(x + 1), *b, c: (int) = (2)) -> (int): return (a)
class K((object)): pass
r = (x
     .sum()
     .relu()
     * (y
        ).max())
if (x.sum() > 1): pass
g = (t + 1 for t in (x))
print(sum(t + 1 for t in x), not (x is y), [(x)][0])
