"""Expressions and statements by themselves: are two the same, what do they name, read, bind and write."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeGuard, TypeVar

_One = TypeVar("_One")


def only(found: Sequence[_One]) -> _One | None:
    """The one that was found; None for none, and for several."""
    return found[0] if len(found) == 1 else None


def words(text: str) -> frozenset[str]:
    """A table of words, from a text that has blanks or new lines between them."""
    return frozenset(text.split())


def parse_expression(text: str) -> ast.expr | None:
    """Parse one expression; None where it is none."""
    try:
        return ast.parse(f"({text}\n)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def key(node: ast.AST) -> str:
    """One spelling for all ways of writing an expression; equal keys mean equal expressions."""
    try:
        return ast.unparse(node)
    except RecursionError:  # hundreds of operators in a row
        return repr(_identity(node))


def same(left: ast.AST, right: ast.AST) -> bool:
    """Whether two expressions are the same, whatever their layout and quotes, and whether read or assigned."""
    return type(left) is type(right) and _identity(left) == _identity(right)


def _identity(node: ast.AST) -> list[object]:
    """Everything that an expression consists of, in one flat list: without recursion, for very long sums."""
    parts: list[object] = []
    stack: list[object] = [node]
    while stack:
        value = stack.pop()
        if isinstance(value, ast.AST):
            fields = [v for name, v in ast.iter_fields(value) if name not in ("ctx", "kind", "type_comment")]
            parts.append(type(value))
            stack += reversed(fields)
        elif isinstance(value, list):
            parts.append(len(value))
            stack += reversed(value)
        else:
            parts.append((type(value), value))
    return parts


def is_path(node: ast.AST) -> bool:
    """Whether a node is a name with attributes and plain subscripts: evaluating it twice changes nothing."""
    acts = (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript) and any(isinstance(n, acts) for n in ast.walk(node.slice)):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def path_of(node: ast.AST) -> str:
    """The text of a name with attributes and with entries under written keys, ``self.nets["actor"]``; else empty."""
    at = node
    while isinstance(at, ast.Attribute) or (isinstance(at, ast.Subscript) and _is_key(at.slice)):
        at = at.value
    return key(node) if isinstance(at, ast.Name) else ""


def _is_key(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def parts_of(path: str) -> list[str]:
    """The words of a path, as the source or PyTorch writes it: ``net``, ``0`` and ``weight`` of ``net[0].weight``."""
    return re.findall(r"\w+", path)


_CHILD = re.compile(r"\.(\d+)(?=[.\[]|$)")


def with_items(path: str) -> str:
    """A path with the children of a Sequential or ModuleList, which PyTorch names ``net.0.state``, as items, as Python
    has them: ``net[0].state``."""
    return _CHILD.sub(r"[\1]", path)


def is_name(node: ast.AST | None, name: str) -> TypeGuard[ast.Name]:
    """Whether an expression is this name and nothing else."""
    return isinstance(node, ast.Name) and node.id == name


def is_attribute(node: ast.AST | None, *names: str) -> TypeGuard[ast.Attribute]:
    """Whether an expression is an attribute of one of these names, whatever it belongs to."""
    return isinstance(node, ast.Attribute) and node.attr in names


def detached(node: ast.AST | None) -> ast.expr | None:
    """What is cut off here: ``x`` of ``x.detach()`` and of ``x.data``; None for anything else."""
    cut = node.func if isinstance(node, ast.Call) and not node.args else node
    return cut.value if is_attribute(cut, "detach", "data") else None


def is_constant(node: ast.AST | None, value: object) -> TypeGuard[ast.Constant]:
    """Whether an expression is this very constant written out: ``1`` is not ``True``."""
    return isinstance(node, ast.Constant) and type(node.value) is type(value) and node.value == value


def is_read(node: ast.AST) -> bool:
    """Whether a name, attribute or entry is read where it stands."""
    return isinstance(getattr(node, "ctx", None), ast.Load)


def is_set(node: ast.AST) -> bool:
    """Whether a name, attribute or entry is given a value where it stands."""
    return isinstance(getattr(node, "ctx", None), ast.Store)


def sole_target(statement: ast.AST | None) -> ast.expr | None:
    """What a plain assignment gives its value to; None for several (``a = b = x``), and for another statement."""
    return only(statement.targets) if isinstance(statement, ast.Assign) else None


def root_of(node: ast.expr) -> ast.expr:
    """What a path starts from: ``self`` of ``self.rows[i].grad``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def with_containers(node: ast.expr) -> Iterator[ast.expr]:
    """An expression, and what it is an entry of: ``rows[i][0]``, ``rows[i]`` and ``rows``."""
    yield node
    while isinstance(node, ast.Subscript):
        node = node.value
        yield node


def without_subscripts(node: ast.expr) -> ast.expr:
    """What an expression takes its entries from: ``self.rows`` of ``self.rows[i][0]``; itself where it takes none."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def stands_at(node: ast.stmt, lines: Iterable[tuple[int, int]]) -> bool:
    """Whether a statement stands at any of these lines, each a pair of the first and the last."""
    return any(first <= (node.end_lineno or node.lineno) and node.lineno <= last for first, last in lines)


def covers(node: ast.stmt | ast.expr, line: int) -> bool:
    """Whether a line (1 is the first) is one of those that a statement or an expression stands on."""
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def blocks_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of statements that a node holds itself: its body, what stands below ``else`` and ``finally``."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block


def bare_call(statement: ast.AST | None) -> ast.Call | None:
    """The call that a statement consists of; None for any other statement."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value if isinstance(value, ast.Call) else None


def last_word(node: ast.AST | None) -> str:
    """The last word of a name, attribute or entry: ``step`` of ``self.opt.step`` and ``held["step"]``; else empty."""
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.Subscript(slice=ast.Constant(value=str(word))):
            return word
    return ""


def called(node: ast.AST | None) -> str:
    """The last word of what a call calls: ``step`` of ``self.opt.step()``; empty for any other expression."""
    return last_word(node.func) if isinstance(node, ast.Call) else ""


def sides(value: ast.expr) -> tuple[ast.expr, ...]:
    """What a value may be: both sides of a conditional expression."""
    return (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)


def elements(node: ast.AST | None) -> list[ast.expr]:
    """The elements of a tuple or list that is written out; none of anything else."""
    return node.elts if isinstance(node, ast.Tuple | ast.List) else []


def pairs(statement: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    """What an assignment assigns to what, tuples on both sides taken apart: ``a, b = 0.0, []`` gives two."""
    if isinstance(statement, ast.AnnAssign):
        return [(statement.target, statement.value)] if statement.value is not None else []
    out: list[tuple[ast.expr, ast.expr]] = []
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        value = statement.value  # type: ignore[attr-defined]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            out += zip(target.elts, value.elts, strict=True)
        else:
            out.append((target, value))
    return out


def entries_of(value: ast.expr) -> list[ast.expr]:
    """What stands for the entries of a list, tuple or dictionary that is written out, by a comprehension too."""
    match value:
        case ast.List(elts=entries) | ast.Tuple(elts=entries) | ast.Dict(values=entries):
            return entries
        case ast.ListComp(elt=entry) | ast.GeneratorExp(elt=entry) | ast.DictComp(value=entry):
            return [entry]
    return []


def value_given(statement: ast.stmt, wanted: ast.expr) -> ast.expr | None:
    """The expression that a statement assigns to this target and to no other, if there is one."""
    inner = ((n.target, n.value) for n in ast.walk(statement) if isinstance(n, ast.NamedExpr))
    todo = [*inner, (sole_target(statement), getattr(statement, "value", None))]
    for target, value in todo:  # the parts of tuples are put behind
        left, right = elements(target), elements(value)
        if target is not None and same(target, wanted):
            return value
        if len(left) == len(right) and not any(isinstance(e, ast.Starred) for e in left + right):
            todo += zip(left, right, strict=True)
    return statement.value if isinstance(statement, ast.AnnAssign) else None


def names_read(node: ast.AST) -> set[str]:
    """The names and attribute paths that a piece of code reads."""
    found = (n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute))
    return {key(n) for n in found if isinstance(n.ctx, ast.Load)}


def plain_names(node: ast.AST, *contexts: type[ast.expr_context]) -> set[str]:
    """The plain names in a piece of code; with ``ast.Load`` or ``ast.Store`` those that it reads or binds."""
    found = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return {n.id for n in found if isinstance(n.ctx, contexts or ast.expr_context)}


def spelled(path: str) -> str:
    """A path as ``key`` writes it; as it is where it is no expression."""
    node = parse_expression(path)
    return key(node) if node is not None else path


def names_written(statement: ast.AST) -> list[str]:
    """What a statement binds or writes into, in its order, without what indexes it."""
    return [key(t).partition("[")[0] for t in targets_of(statement)]


def is_in_place(method: str) -> bool:
    """Whether a method of this name writes into its tensor, by PyTorch's way to name them: ``add_``."""
    return method.endswith("_") and not method.endswith("__")


def targets_of(statement: ast.AST) -> list[ast.expr]:
    """The leaf targets that a statement binds (tuples taken apart), its walrus assignments included."""
    return list(_targets(statement))


@lru_cache(maxsize=1 << 14)
def _targets(statement: ast.AST) -> tuple[ast.expr, ...]:
    tops = list(getattr(statement, "targets", ())) if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AugAssign | ast.For | ast.AsyncFor | ast.AnnAssign):
        tops += [statement.target] if getattr(statement, "value", statement) is not None else []  # not ``x: int``
    elif isinstance(statement, ast.With | ast.AsyncWith):
        tops += [i.optional_vars for i in statement.items if i.optional_vars is not None]
    leaves: list[ast.expr] = []
    while tops:
        top = tops.pop(0)
        if isinstance(top, ast.Tuple | ast.List):
            tops[:0] = top.elts
        else:
            leaves.append(top.value if isinstance(top, ast.Starred) else top)
    own = (child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr))
    return (*leaves, *(n.target for child in own for n in ast.walk(child) if isinstance(n, ast.NamedExpr)))


def weights_of(node: ast.Call) -> tuple[str, int]:
    """The name and the position of the argument that weighs what a call differentiates."""
    path = ast.unparse(node.func).split(".")
    if path[-1] == "grad":
        return "grad_outputs", 2
    return ("grad_tensors", 1) if path[-2:-1] == ["autograd"] else ("gradient", 0)
