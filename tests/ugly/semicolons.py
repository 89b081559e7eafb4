import torch; import os
a = torch.ones(2); b = a * 2; c = b.sum();
if a is not None: c = c + b.sum(); c = c * 2; print(c);
for i in range(2): x = a + i; y = x * 2  # the end
else: z = 1
class A: x = 1; y = 2
def f(): return a
while c is None: break
with open(os.devnull) as g: s = g.read(); t = s + "x"
try: u = a + b
except ValueError: u = b
finally: v = u * 1
