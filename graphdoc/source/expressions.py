"""What one expression says for autograd: operands, cases without a tensor, rows, in-place names, gradient uses."""

from __future__ import annotations

import ast
from enum import Enum

from graphdoc.source.module import Source, is_method_call, keyword, receiver_of
from graphdoc.source.paths import called, elements, is_in_place, is_name, is_path, only, plain_names, root_of, words
from graphdoc.source.scopes import is_module

# What a function of numbers is given, read off its expression: the argument, the divisor, the base.


_LATER: dict[str, tuple[int, tuple[str, ...]]] = {
    **dict.fromkeys(("xlogy", "xlog1py"), (1, ("other", "target"))),
    **dict.fromkeys(("div", "divide", "true_divide", "floor_divide", "fmod", "remainder"), (1, ("other",))),
    "addcdiv": (2, ("tensor2",)),
}
"""Functions whose operand is a later argument: its number, and the keywords that it may have. A division that stands in
another function of PyTorch's is not in its words."""
_AFTER_A_NUMBER = ("polygamma",)
"""Functions whose tensor stands behind a number; their methods have it in front."""
_DIVIDES = (ast.Div, ast.Mod, ast.FloorDiv)


def position_of(operation: str) -> int:
    """Which of a function's tensors is its operand: the second for ``xlogy`` and a division."""
    return _LATER.get(operation, (0,))[0]


def operand_of(source: Source, node: ast.expr, operation: str = "") -> ast.expr | None:
    """What a function is given (``x`` of ``torch.log(x)``, ``x.log()``), a division's divisor, a power's base.

    ``source`` is the file that it stands in; ``operation`` is the function of PyTorch's that ran there, which has its
    operand elsewhere perhaps.
    """
    if isinstance(node, ast.BinOp):
        return node.right if isinstance(node.op, _DIVIDES) else node.left if isinstance(node.op, ast.Pow) else None
    if not isinstance(node, ast.Call):
        return None
    receiver = receiver_of(node)
    if receiver is not None and (is_module(source, receiver) or is_name(receiver, "self")):
        receiver = None
    if operation in _LATER:
        own = name_of(node) in _LATER
        number, keywords = _LATER[operation]
        given = [*([receiver] if receiver is not None and own else []), *node.args]
        chosen = keyword(node, *keywords) or next(iter(given[number:]), None)
        known = own or operation in ("xlogy", "xlog1py")
        return chosen if known and not any(isinstance(a, ast.Starred) for a in node.args) else None
    first = receiver or next(iter(node.args[name_of(node) in _AFTER_A_NUMBER :]), None)
    return None if isinstance(first, ast.Starred) else first


def factor_of(node: ast.expr | None, side: int) -> ast.expr | None:
    """The left factor of a written product, or the right one (``side`` 1); None for anything else."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return right if side else left
    return None


def name_of(node: ast.expr | None) -> str:
    """The last name of the function that is called: ``log`` of ``torch.log(x)`` and ``x.log_()``."""
    return called(node).strip("_")


# What is a tensor in one case only: ``max(0, x)``, ``x if c else 0``, an attribute of what may be None.


def tensor_part(node: ast.expr) -> ast.expr | None:
    """Of an expression that may be a plain number, the one part that is the tensor in the other case; None where it
    has several, or where nothing says that it may be a number.
    """
    match node:
        case (
            ast.Call(func=ast.Name(id="max" | "min"), args=[one, other], keywords=[])
            | ast.IfExp(body=one, orelse=other)
        ):
            return only([part for part in (one, other) if not is_number(part)])
    return None


def is_number(node: ast.expr) -> bool:
    """Whether an expression is a number written there."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float | complex | type(None))


def may_be_number(source: Source, path: str, at: ast.AST) -> bool:
    """Whether an assignment of a path that reaches a statement gives it a number in one case."""
    function = source.node_function(at)
    loop = source.node_loop(at)
    inside = source.node_assignments(path, loop) if loop is not None else []
    reaching = inside or source.node_assignments(path, function)
    values = [getattr(s, "value", None) for s in reaching]
    return any(isinstance(v, ast.expr) and (tensor_part(v) is not None or is_number(v)) for v in values)


def may_be_none(source: Source, path: ast.expr, at: ast.AST) -> str:
    """The variable that an attribute path starts from, where an assignment of the same scope gives it None in one case
    (``buffer = None``); empty where none does.
    """
    root = root_of(path)
    if root is path or not isinstance(root, ast.Name):
        return ""
    values = [getattr(s, "value", None) for s in source.node_assignments(root.id, source.node_function(at))]
    nothing = (isinstance(v, ast.Constant) and v.value is None for v in values)
    return root.id if len(values) > 1 and any(nothing) else ""


# Rows of a buffer as the source spells them: ``v[i]``, ``v[i][t]``, ``v[i, t]`` with the counter of a loop.


def first_index(node: ast.Subscript) -> ast.expr:
    """``i`` of ``values[i][t]``, ``values[i, t]`` and ``values[i]``."""
    while isinstance(node.value, ast.Subscript):
        node = node.value
    return node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice


def is_full(index: ast.expr) -> bool:
    """Whether an index takes all there is: ``:`` or ``...``."""
    if isinstance(index, ast.Slice):
        return index.lower is None and index.upper is None and index.step is None
    return isinstance(index, ast.Constant) and index.value is Ellipsis


def counts(source: Source, name: ast.Name) -> bool:
    """Whether a name is the counter of a loop around it: of ``range(…)``, or the first of ``enumerate(…)``."""
    loops = (getattr(above, "generators", [above]) for above in source.node_ancestors(name))
    for loop in (loop for group in loops for loop in group if isinstance(loop, ast.For | ast.comprehension)):
        first = elements(loop.target)[:1] if called(loop.iter) == "enumerate" else [loop.target]
        if called(loop.iter) in ("range", "enumerate") and any(is_name(counter, name.id) for counter in first):
            return True
    return False


# Which in-place methods have no counterpart without the underscore, where ``inplace`` stands, and what is new.

# Written anew instead, ``{x}`` being the tensor and ``{a}`` the arguments.
REPLACEMENTS = {"zero_": "{torch}.zeros_like({x})", "fill_": "{torch}.full_like({x}, {a})", "copy_": "{a}.clone()"}

_RANDOM = words("normal_ uniform_ random_ bernoulli_ exponential_ cauchy_ geometric_ log_normal_")
FILLS = _RANDOM.union(REPLACEMENTS)
"""Methods that give a whole tensor new numbers, whatever it held before."""

FULL = words("full full_like new_full")
"""Functions that fill a tensor with one number, of which they take no graph."""

# No method of that name without the underscore does the same: the tensor is cloned before the write.
WITHOUT_COUNTERPART = _RANDOM | words(
    """
    set_ resize_ resize_as_ apply_ map_ map2_ fill_diagonal_ as_strided_ rename_ resize_as_sparse_ sparse_resize_
    sparse_resize_and_clear_
    """
)

# They end in an underscore and write no element.
NOT_A_WRITE = frozenset(
    {"requires_grad_", "detach_", "share_memory_", "retain_grad_", "_coalesced_", "module_load_", "rename_"}
)

# The position of ``inplace`` in torch.nn classes and torch.nn.functional functions.
POSITIONS = {
    "ReLU": 0, "ReLU6": 0, "SiLU": 0, "Mish": 0, "Hardswish": 0, "Hardsigmoid": 0, "SELU": 0,
    "ELU": 1, "CELU": 1, "LeakyReLU": 1, "Dropout": 1, "Dropout1d": 1, "Dropout2d": 1, "Dropout3d": 1,
    "AlphaDropout": 1, "FeatureAlphaDropout": 1, "RReLU": 2, "Threshold": 2, "Hardtanh": 2,
    "relu": 1, "relu6": 1, "silu": 1, "mish": 1, "hardswish": 1, "hardsigmoid": 1, "selu": 1,
    "elu": 2, "celu": 2, "leaky_relu": 2, "dropout": 3, "dropout1d": 3, "dropout2d": 3, "dropout3d": 3,
    "alpha_dropout": 3, "feature_alpha_dropout": 3, "rrelu": 4, "threshold": 3, "hardtanh": 3,
}  # fmt: skip

FRESH = words(
    """
    exp expm1 log log1p log2 log10 sigmoid logsigmoid tanh sqrt rsqrt reciprocal sin cos tan asin acos atan atan2 sinh
    cosh erf erfc neg abs softmax log_softmax softplus logsumexp pow square add sub mul div matmul mm bmm mv dot outer
    addmm baddbmm sum mean prod norm vector_norm var std amax amin cumsum cumprod logcumsumexp dist cdist einsum linear
    conv1d conv2d conv3d clamp clamp_min clamp_max maximum minimum where cat stack clone lerp gather index_select
    masked_select masked_fill tril triu flip roll repeat_interleave layer_norm
    """
)
"""Functions and methods of tensors whose result is new and nobody else's, never a view of what they got."""


def is_fresh(root: ast.expr) -> bool:
    """Whether an expression computes a tensor that nothing else holds: ``torch.exp(x)``, ``x.exp()``."""
    written = isinstance(root, ast.Call) and any(k.arg in ("out", "inplace", None) for k in root.keywords)
    return called(root) in FRESH and not written


TAKEN_OUT = words("detach data item numpy tolist")
"""Attributes and methods by which a value comes out of its graph: what is computed from it trains nothing."""

# What a statement does with a gradient that it reads: takes its value, scales it, or puts something into it.


class Use(Enum):
    """What becomes of ``p.grad`` in its statement."""

    VALUE = "its value is taken: ``total += p.grad.norm()``"
    SCALED = "what it is becomes something else, and zeros would stay zeros: ``p.grad.data.clamp_(-1, 1)``"
    GIVEN = "something is put into it, or added: ``p.grad.data = g``, ``p.grad += g``"


_SCALING = frozenset({"mul_", "div_", "clamp_", "clip_", "clamp_min_", "clamp_max_", "zero_", "nan_to_num_", "neg_"})
_SCALING_TYPES = ast.Mult | ast.Div


def use_of(source: Source, node: ast.expr) -> Use | None:
    """How the statement around ``p.grad`` uses it; None where it cannot be said, or where naming ``p`` has effects."""
    if not isinstance(node, ast.Attribute) or not is_path(node.value):
        return None
    top, method = _chain(source, node)
    above = source.parents.get(top)
    if isinstance(above, ast.Expr) and is_in_place(method):
        return Use.SCALED if method in _SCALING else Use.GIVEN
    if isinstance(above, ast.AugAssign) and above.target is top:
        return Use.SCALED if isinstance(above.op, _SCALING_TYPES) else Use.GIVEN
    if isinstance(getattr(top, "ctx", ast.Load()), ast.Load):
        return Use.VALUE
    return Use.GIVEN if isinstance(above, ast.Assign) and above.targets == [top] and top is not node else None


def is_one_of_many(source: Source, node: ast.expr) -> bool:
    """Whether ``p`` of ``p.grad`` is what a loop or a comprehension around it goes over."""
    root = root_of(node)
    loops = (getattr(above, "generators", [above]) for above in source.node_ancestors(node))
    targets = [loop.target for g in loops for loop in g if isinstance(loop, ast.For | ast.AsyncFor | ast.comprehension)]
    return isinstance(root, ast.Name) and any(root.id in plain_names(t) for t in targets)


def _chain(source: Source, node: ast.expr) -> tuple[ast.expr, str]:
    """The outermost expression that goes on from a node by attributes, entries and calls; the last method's name."""
    top, method = node, ""
    while True:
        above = source.parents.get(top)
        if isinstance(above, ast.Attribute | ast.Subscript) and above.value is top:
            top = above
        elif isinstance(above, ast.Call) and above.func is top:
            method, top = getattr(top, "attr", ""), above
        else:
            return top, method


def entry_of_parameters(node: ast.expr) -> ast.expr | None:
    """What stands for an entry of a list or dictionary of a module's own parameters: the call of which ``list(…)`` or
    ``dict(…)`` makes one, or the name of one in a comprehension; None for anything else."""
    match node:
        case ast.Call(func=ast.Name(id="dict" | "list" | "tuple" as maker), args=[given], keywords=[]):
            return given if is_method_call(given, "named_parameters" if maker == "dict" else "parameters") else None
        case (
            ast.ListComp(elt=ast.Name() as entry, generators=[over])
            | ast.DictComp(value=ast.Name() as entry, generators=[over])
        ) if is_method_call(over.iter, "parameters", "named_parameters"):
            return entry
    return None
