import torch
x = torch.ones(2)
def f():
    """A docstring
over lines
    with   blanks
"""
    a = '''
x = 1
    # no comment
''' + "(" ')' "#"; b = x + 1
    c = ("one"
         "two", x.sum())  # ") ('
    return a, b, c
text = "x.sum()"; y = x.sum()
