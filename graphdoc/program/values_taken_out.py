"""Values that leave the graph as arrays and numbers: handed to NumPy, printed, kept as a plain number."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from graphdoc.evidence import Frame, Raised, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import expression_at, frame_of, scope_around, source_at, statement_at, text_of
from graphdoc.program.observed import Program
from graphdoc.program.reuse import with_graph
from graphdoc.program.spans import reached
from graphdoc.program.written_out import call_made, written_out
from graphdoc.source.module import Source, each, is_method_call, walked
from graphdoc.source.paths import bare_call, called, covers, is_attribute, is_read, key, last_word, targets_of
from graphdoc.source.scopes import computes, function_of, own_nodes

# Where an array that was taken out of a tensor becomes a tensor again, and whether it goes into a loss.

_MAKES = frozenset({"tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "DoubleTensor"})
_CHOOSES = frozenset({"where", "nonzero", "unique", "searchsorted", "digitize", "shape", "size", "len", "dtype"})
_Ends = Callable[[ast.AST, ast.AST], bool]
_Passes = Callable[[Source, ast.Call], bool]
_DEEPEST = 3
"""Functions, from the one that makes the array outwards, that hand it on by what they return."""


def tensor_again(sources: SourceTexts, stack: Sequence[Frame]) -> Frame | None:
    """The call that makes a tensor of an array, or of what NumPy's functions and operators make of it, in the function
    that took it or in one that is given it back. Not one that is an index, nor behind a function of the program's own
    (what an environment answers to an action is no part of the action).

    Args:
        stack: that of the conversion, the innermost frame last.
    """
    return _handed_on(sources, [f for f in stack if f.user][-_DEEPEST:], _made, _is_numpy)


def in_the_loss(sources: SourceTexts, stack: Sequence[Frame]) -> Frame | None:
    """The call of ``backward`` on what was computed with an array or number, by operators and by functions of NumPy,
    PyTorch and Python: a detached one is a constant there. Not by what it only chooses (an index, a comparison).

    Args:
        stack: that of the conversion, the innermost frame last.
    """
    return _handed_on(sources, [f for f in stack if f.user], _differentiated, _computes)


def _handed_on(sources: SourceTexts, stack: Sequence[Frame], ends: _Ends, passes: _Passes) -> Frame | None:
    for frame in reversed(stack):
        source, start = source_at(sources, frame), expression_at(sources, frame)
        scope = scope_around(source.tree, frame.line)
        found, returned = _follow(source, scope, start, ends, passes) if start is not None else (None, False)
        if found is not None or not returned:
            return frame_of(sources, frame, found) if found is not None else None
    return None


def _follow(
    source: Source, scope: ast.AST, start: ast.expr, ends: _Ends, passes: _Passes
) -> tuple[ast.expr | None, bool]:
    """The call that it ends in; and whether the function returns it."""
    todo: list[ast.expr] = [start]
    seen: set[str] = set()
    while todo:
        node = todo.pop()
        parent = source.parents.get(node)
        while isinstance(parent, ast.expr | ast.keyword):
            if isinstance(parent, ast.expr) and ends(parent, node):
                return (parent, False) if not _is_index(source, parent) else (None, False)
            if isinstance(parent, ast.Call) and node is not parent.func and not passes(source, parent):
                break
            if passes is _computes and _only_chooses(parent, node):
                break
            node, parent = parent, source.parents.get(parent)  # type: ignore[assignment]
        if isinstance(parent, ast.Return):
            return None, True
        if not isinstance(parent, ast.Assign | ast.AugAssign | ast.AnnAssign):
            continue
        for name in {key(t).partition("[")[0] for t in targets_of(parent)} - seen:
            seen.add(name)
            todo += [
                n
                for n in each(scope, ast.Name, ast.Attribute)
                if is_read(n) and text_of(n) == name and not covers(parent, n.lineno)
            ]
    return None, False


_BUILT_IN = frozenset({"float", "list", "tuple", "sum", "max", "min", "abs"})


def _is_numpy(source: Source, call: ast.Call) -> bool:
    """Whether a call is of NumPy, or of a built-in that makes a number or a list."""
    return function_of(source, call).startswith("numpy.") or text_of(call.func) in _BUILT_IN


def _made(call: ast.AST, node: ast.AST) -> bool:
    return called(call) in _MAKES and isinstance(call, ast.Call) and node is not call.func


def _differentiated(method: ast.AST, node: ast.AST) -> bool:
    return is_attribute(method, "backward") and node is method.value


def _computes(source: Source, call: ast.Call) -> bool:
    """Whether the result of a call is made of the values that it is given: one of a library of numbers, by its name."""
    word = last_word(call.func)
    known = text_of(call.func) in _BUILT_IN or computes(source, call.func)
    return known and not word.startswith("arg") and word not in _CHOOSES


def _only_chooses(parent: ast.AST, node: ast.AST) -> bool:
    """Whether a value is read here to decide on others, and not computed with."""
    if isinstance(parent, ast.Attribute):
        return parent.attr.startswith("arg") or parent.attr in _CHOOSES
    asks = node in (getattr(parent, "slice", None), getattr(parent, "test", None))
    return isinstance(parent, ast.Compare) or (isinstance(parent, ast.Subscript | ast.IfExp) and asks)


def _is_index(source: Source, node: ast.expr) -> bool:
    around = takewhile(lambda n: isinstance(n, ast.expr), source.node_ancestors(node))
    return any(isinstance(n, ast.Subscript) for n in around)


# What a program hands to NumPy: the argument, whether it is a container of tensors, and where its result goes.

_MODULE_CALL = "torch/nn/modules/module.py"


@dataclass(frozen=True)
class ArrayCall:
    """A call below which NumPy got a tensor that requires gradients.

    ``argument`` is the one that holds the tensor, as far as that is known, else its first; ``holds`` what that is known
    to be: ``"tensor"``, ``"list"`` (of tensors), ``"nested"`` (with tensors inside its entries) or empty. ``learned``
    tells whether the result goes on into what is trained, so that a detached one would end that; ``back`` is the place
    at which it, or what NumPy makes of it, becomes a tensor again, ``loss`` the call of backward on what is computed
    with it. ``put`` are the tensors with a graph that the function puts into the argument, a list, and ``shown``
    whether it reads that list for nothing before this call.
    """

    call: ast.Call
    argument: ast.expr | None
    holds: str
    learned: bool
    back: Frame | None = None
    loss: Frame | None = None
    put: tuple[Frame, ...] = ()
    shown: bool = False

    @property
    def direct(self) -> bool:
        """Whether it is the tensor's own method: ``x.numpy()``."""
        return bindings.text_of(self.call.func).endswith(".numpy")

    @property
    def keeps_graphs(self) -> bool:
        """Whether a list holds entries with a graph that it need not have: a list of records, or one only shown."""
        return self.holds == "nested" or (self.holds == "list" and self.shown and not self.learned)

    @property
    def converts(self) -> bool:
        """Whether the call makes an array of one tensor: ``np.asarray(x)``."""
        return called(self.call) in ("asarray", "array") and self.holds != "list"


def array_call(program: Program, frame: Frame | None) -> ArrayCall | None:
    """The call at the frame that the traceback of the conversion ends in, or None."""
    call = bindings.call_at(program.sources, frame)
    if call is None or frame is None:
        return None
    lists = _filled(program.sources, frame, with_graph(program.evidence.extras, frame.function))
    given = _handed(program.evidence.extras, source_at(program.sources, frame), call, lists)
    name = bindings.text_of(given)
    stack = program.raised.stack if program.raised is not None else [frame]
    loss = in_the_loss(program.sources, stack)
    return ArrayCall(
        call,
        given,
        _holds(program.evidence.extras, given, lists),
        _in_forward(program.raised) or loss is not None,
        tensor_again(program.sources, stack),
        loss,
        tuple(lists.get(name, ())),
        name in lists and not _read_before(program.sources, frame, name),
    )


def _filled(sources: SourceTexts, frame: Frame, graphs: set[str]) -> dict[str, list[Frame]]:
    """The lists into which the frame's file puts tensors that have a graph there, and where each of these stands."""
    out: dict[str, list[Frame]] = {}
    for kept, call in _filling(bindings.tree(sources, frame.file)):
        names = [n for a in call.args for n in each(a, ast.Name) if n.id in graphs]
        found = [bindings.frame_of(sources, frame, n) for n in names]
        if found:
            out.setdefault(bindings.text_of(kept), []).extend(found)
    return out


def _filling(scope: ast.AST | None) -> Iterator[tuple[ast.expr, ast.Call]]:
    """The calls that put something into a list, each with the list."""
    for n in each(scope, ast.Call):
        if is_method_call(n, "append", "insert"):
            yield n.func.value, n


def _read_before(sources: SourceTexts, frame: Frame, name: str) -> bool:
    """Whether the list is read above the call for anything but to put something in."""
    scope = bindings.scope_at(sources, frame)
    filled = {kept for kept, _ in _filling(scope)}
    above = (n for n in each(scope, ast.Name, ast.Attribute) if n.lineno < frame.line and n not in filled)
    return any(bindings.text_of(n) == name and is_read(n) for n in above)


def _handed(extras: dict[str, Any], source: Source, call: ast.Call, lists: dict[str, list[Frame]]) -> ast.expr | None:
    """The argument with the tensor: one that is known to hold it, else the first that NumPy has not made itself."""
    given = [*call.args, *(k.value for k in call.keywords if k.arg)]
    known = next((a for a in given if _holds(extras, a, lists) and not isinstance(a, ast.List | ast.ListComp)), None)
    others = (a for a in given if not isinstance(a, ast.Constant) and called(a) not in ("len", "range"))
    maybe = (a for a in others if not function_of(source, a).startswith("numpy."))
    return known or next(maybe, given[0] if given else None)


def _holds(extras: dict[str, Any], node: ast.expr | None, lists: dict[str, list[Frame]]) -> str:
    if isinstance(node, ast.List | ast.ListComp):
        return "list"
    if not isinstance(node, ast.Name | ast.Attribute):
        return ""
    text = ast.unparse(node)
    paths = [t.path for t in reached(extras)]
    entries = [p for p in paths if p.startswith(f"{text}[")]
    plain = any(re.fullmatch(r"\[\d+\]", p.removeprefix(text)) for p in entries)
    kept = "list" if plain or (not entries and text in lists) else "nested" if entries else ""
    return "tensor" if text in paths else kept  # what has a name of its own is not told again as an entry


def _in_forward(raised: Raised | None) -> bool:
    """Whether a module was computing its output, with gradients recorded: the result becomes a part of it."""
    stack = raised.stack if raised is not None else []
    below = list(takewhile(lambda f: not f.file.replace("\\", "/").endswith(_MODULE_CALL), reversed(stack)))
    return len(below) < len(stack) and any(f.user for f in below)


# Values that are taken out of a graph to be printed or logged: nothing goes on from them.

_TELL = frozenset(
    {"print", "debug", "info", "warning", "add_scalar", "add_scalars", "set_postfix", "set_postfix_str"}
    | {"set_description", "set_description_str"}
)

_PLAIN = frozenset(
    {"str", "repr", "format", "float", "int", "bool", "len", "list", "tuple", "round", "abs", "min", "max", "sum"}
    | {"mean", "std", "var", "median", "around", "argmax", "argmin", "array", "asarray", "exp", "log", "sqrt"}
)
"""Functions of Python, numpy and math that give a new value and keep nothing."""


def goes_nowhere_else(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether the array made at a place is printed and can be kept by nothing: ``print`` gets it, or what its own
    methods and plain functions make of it."""
    source, node = source_at(sources, frame), expression_at(sources, frame)
    if node is None or _binds_print(source.tree):
        return False
    inner: ast.AST = node
    for outer in (node, *source.node_ancestors(node)):
        if isinstance(outer, ast.Call) and key(outer.func) == "print":
            return isinstance(source.parents.get(outer), ast.Expr)
        if isinstance(outer, ast.NamedExpr | ast.Lambda | ast.comprehension | ast.stmt):
            return False
        if isinstance(outer, ast.Call) and not _keeps_nothing(source, outer, inner):
            return False
        inner = outer
    return False


def _keeps_nothing(source: Source, call: ast.Call, value: ast.AST) -> bool:
    """Whether a call with a value in it gives something new and leaves the value to nobody."""
    if call.func is value or (call is value and last_word(call.func) == "numpy"):
        return True  # a method of the value's own
    named = isinstance(call.func, ast.Name) or computes(source, call.func)
    return named and last_word(call.func) in _PLAIN and not any(k.arg == "out" for k in call.keywords)


def _binds_print(tree: ast.AST) -> bool:
    return any(
        "print" in (getattr(n, "name", ""), getattr(n, "asname", ""), *(key(t) for t in targets_of(n)))
        for n in walked(tree)
    )


def is_only_printed(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether the statement at a place does nothing but print or log."""
    return called(bare_call(statement_at(sources, frame))) in _TELL


# How a name came to hold a plain number where a tensor was meant: converted, or left as it began.

_METHODS = ("item", "tolist", "numpy")
_FUNCTIONS = ("float", "int")


@dataclass(frozen=True)
class Number:
    """What the source tells of a plain number: each place that takes it out of a tensor, each constant that it starts
    as. Where it is converted, the start is told only if nothing else is known; both empty: unknown."""

    converted: tuple[Frame, ...] = ()
    starts: tuple[Frame, ...] = ()
    direct: bool = False
    """Whether a statement that binds the name converts, and not a function that it calls."""


def called_on(program: Program) -> tuple[Frame | None, str]:
    """Where the program calls the method that failed, and what it calls it on, as it is written there."""
    stack = program.raised.stack if program.raised is not None else []
    at, call = call_made(program.sources, stack, values=False) or (None, None)
    return (at, text_of(call.func.value)) if is_method_call(call) else (program.raised_at, "")


def plain_number(sources: SourceTexts, frame: Frame | None, name: str) -> Number:
    """What the assignments to ``name`` that the code at ``frame`` can see tell of it."""
    assigned = bindings.assignments(sources, frame, name) if frame is not None and name else []
    told = [(at, written_out(sources, at, value)) for at, value in assigned]
    direct = tuple(at for at, value in told if _converts(value))
    converted = direct or tuple(at for _, value in told for at in _converting_functions(sources, value))
    starts = tuple(at for at, value in told if isinstance(getattr(value, "value", None), float))
    return Number(converted, () if converted else starts, bool(direct))


def _converts(node: ast.AST) -> bool:
    """Whether an expression takes numbers out of tensors by its own calls."""
    return any(is_method_call(c, *_METHODS) or bindings.text_of(c.func) in _FUNCTIONS for c in each(node, ast.Call))


def _converting_functions(sources: SourceTexts, value: ast.expr) -> list[Frame]:
    """The ``return`` of each function of the sources that the expression calls by name, where that converts."""
    names = {called(n) for n in each(value, ast.Call)}
    functions = ((file, n) for file, n in bindings.everywhere(sources, ast.FunctionDef) if n.name in names)
    returns = ((file, n.name, r) for file, n in functions for r in own_nodes(n) if isinstance(r, ast.Return))
    places = ((bindings.frame_of(sources, file, r, name), r.value) for file, name, r in returns)
    return [at for at, value in places if value is not None and _converts(written_out(sources, at, value))]
