"""Make a number in place of a tensor of one element: ``torch.Tensor([1])`` → ``torch.tensor(1.0)``.

A tensor without dimensions is made of the same number: ``torch.ones(1)`` → ``torch.ones(())``.

Args:
    place: the call that makes the tensor.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import rename, write
from graphdoc.source.paths import last_word
from graphdoc.source.places import Edit

KIND = "number_for_one"
MAKERS = frozenset({"Tensor", "FloatTensor", "tensor"})
"""``torch.Tensor`` and ``torch.FloatTensor`` make numbers of the default type of a list; ``torch.tensor`` keeps its."""
SIZED = frozenset({"ones", "zeros"})


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    name, given = last_word(node.func), node.args[0] if node.args else None
    if len(node.args) != 1 or not isinstance(node.func, ast.Attribute) or given is None:
        raise CannotFix("what makes the tensor is none of torch's own functions with one argument")
    if name in SIZED and isinstance(given, ast.Constant) and given.value == 1:
        return [write(source, given, "()")]
    if name not in MAKERS or not isinstance(given, ast.List) or len(given.elts) != 1:
        raise CannotFix("the tensor is not made of a list of one number")
    number = given.elts[0]
    if name == "tensor":
        return [write(source, given, "{number}", number=number)]
    try:
        plain = repr(float(ast.literal_eval(number)))
    except (ValueError, TypeError, SyntaxError):
        raise CannotFix("the list holds more than a plain number") from None
    return [rename(source, node.func, "tensor"), write(source, given, plain)]
