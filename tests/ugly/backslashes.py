import torch
x = torch.ones(2)
y = x + \
    x * 2 \
    - 1
if x.sum() > 1 and \
   y.sum() > 1: \
    z = y.sum()
with open("/dev/null") as f, \
     open("/dev/null") as g: w = x \
       .sum()
assert x is not None, \
    "text \
    goes on"
