import torch
x = torch.ones(3); width = 10
print(f"{x.sum():.3f} {x.sum() + 1!r:>{width}} {'nested ' + str(x.max())} {{literal}} {x=}")
s = (f"one {x.sum()}"
     f" two {x.mean() * 2}" " three"
     rf"\d{x[0]}")
t = f"""
  several {x.sum()
  } lines
    {x.mean()}
"""
y = x.sum() + 1; u = f"é {y.item()} ü {(y * 2).item()}"
