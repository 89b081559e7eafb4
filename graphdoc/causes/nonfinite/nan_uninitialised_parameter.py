"""GD614: uninitialised memory."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Remedy, remedy_at
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.bindings import call_at, text_of
from graphdoc.program.proof import Proof
from graphdoc.story.first_bad_value import Words, explained, function

PAGE = Page(
    code="GD614",
    title="Memory that nobody has written is used as numbers",
    families=("silent", "invalid-gradient"),
    what_happened="""\
`torch.empty`, `empty_like`, `new_empty` and `torch.Tensor(n, m)` give memory as it is found. If nothing is written
there before it is used, the numbers are whatever was left: often zeros, now and then `1e38` or nan. So it fails on
one machine and not on another, or only after some other code has run.

An operation of PyTorch's own may read such memory, too: in a non-reentrant checkpoint `nn.RReLU` keeps its noise for
backward before it is drawn (seen with torch 2.13).""",
    why="""\
A parameter made with `nn.Parameter(torch.empty(…))` needs an initialisation of its own; PyTorch's modules have theirs
in `reset_parameters`. A buffer that is filled in part and read whole is the same fault.""",
    example="self.weight = nn.Parameter(torch.empty(n_out, n_in))",
    use_instead="""\
self.weight = nn.Parameter(torch.empty(n_out, n_in))
nn.init.kaiming_uniform_(self.weight, a=5**0.5)""",
    fix_safety="""\
Unsafe: which start is right depends on the layer. `torch.zeros` is right for biases and buffers and wrong for weights
that are to differ from each other.""",
    not_this="- The memory was written, and an operation made the nan: the other causes of this group.",
    references=("torch.empty", ("torch.nn.init", "nn.init.html")),
)


@explained("nan-uninitialised-parameter")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value is memory that the program asked for and did not write."""
    name = next((i.parameter for i in birth.inputs if i.parameter), "")
    empty = birth.kind == "empty"
    told, seen = {
        "empty": (function(trouble, birth, "what was asked for"), "returns uninitialised memory"),
        "unwritten": ("memory", "reads memory that no operation has written"),
    }.get(birth.kind, ("a parameter", "used here, and no operation has written it"))
    title = f"{f'`{name}`' if name else told} is used and was never written"
    because = (
        "the second run filled this memory with nan, and that nan came into the loss or a gradient" if empty else ""
    )
    text = "the numbers are whatever the memory held."
    remedies = _zeros(trouble, birth) if empty else ()
    return Words(title, seen, because, text, remedies, confidence=Proof.BIRTH.where(empty))


_EMPTY = ("empty", "empty_like", "new_empty", "Tensor", "FloatTensor")


def _zeros(trouble: Trouble, birth: Birth) -> tuple[Remedy, ...]:
    """Zeros in place of memory as it is found: ``torch.empty(n)`` → ``torch.zeros(n)``."""
    path = text_of(getattr(call_at(trouble.sources, birth.place), "func", None))
    torch, _, name = path.rpartition(".")
    args = {"operand": path, "name": f"{torch}.{name.replace('empty', 'zeros') if 'empty' in name else 'zeros'}"}
    note = "Right for biases and buffers; weights need random numbers."
    at = birth.place if torch and name in _EMPTY else None
    return remedy_at(at, "use_instead", "Start from zeros", "unsafe", note, inside=True, **args)
