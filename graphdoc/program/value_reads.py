"""Where a value that was made is taken up and read on: where two passes meet, its names, the losses that use it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from graphdoc.evidence import Frame, Holder, Node, OlderEdge, Raised, SourceTexts
from graphdoc.evidence.lookup import node_with
from graphdoc.program.bindings import frame_of, function_around, names_in, text_of, tree
from graphdoc.program.container_entries import statements
from graphdoc.program.flows import made_of
from graphdoc.program.stored_values import kept_at, user_frames
from graphdoc.source.paths import covers, key, pairs, parse_expression


def meeting(producer: Node, consumer: Node) -> tuple[Frame, Frame] | None:
    """The innermost function in which both a value's making and its use are under way: (where made, where used).

    Where that is one and the same call, which led to different functions at different times (``self.value(batch)`` of
    several classes), nothing is handed on there: the places are those in the functions that it led to.
    """
    making, using = user_frames(producer.stack), user_frames(consumer.stack)
    for i, made in enumerate(making):
        for j, used in enumerate(using):
            if made.file == used.file and made.function == used.function:
                one = (made.line, made.column) == (used.line, used.column)
                return (making[i - 1], using[j - 1]) if one and i and j else (made, used)
    return None


def handing_on(producer: Node, consumer: Node, holders: Iterable[Holder]) -> tuple[Frame, Frame] | None:
    """Where a value is made and used, in the very call of a function that handed it on.

    A value that only variables and containers hold goes from call to call by arguments and results: of two calls of one
    function from different places, neither has it in its hands while it is made and while it is used. One that an
    attribute holds is stored and read inside of them (``meeting``).
    """
    if any(s.kind == "attribute" for h in holders for s in h.steps):
        return meeting(producer, consumer)
    return parting(producer, consumer) or meeting(producer, consumer)


def parting(producer: Node, consumer: Node) -> tuple[Frame, Frame] | None:
    """The first places, from the outermost function on, at which the two stacks part within one function."""
    for made, used in zip(user_frames(producer.stack)[::-1], user_frames(consumer.stack)[::-1], strict=False):
        if (made.file, made.function) != (used.file, used.function):
            return None
        if (made.line, made.column) != (used.line, used.column):
            return made, used
    return None


def ends(
    sources: SourceTexts, nodes: list[Node], raised: Raised | None, carry: OlderEdge
) -> tuple[Frame, Frame] | None:
    """Where a carried value gets its graph and where it is taken up, in the function that has both in its hands.

    A value that goes from one function to another in an attribute passes no caller of both: then it is where it is
    stored and where it is read.
    """
    producer, consumer = node_with(nodes, carry.producer), node_with(nodes, carry.consumer)
    pair = meeting(producer, consumer) if producer is not None and consumer is not None else None
    holders = carry.tensor.holders
    if pair is None or producer is None or consumer is None or not holders:
        return pair
    made, used = pair
    if not all(any(s.kind == "attribute" for s in h.steps) for h in holders):
        return pair
    inner = user_frames(producer.stack)[0], user_frames(consumer.stack)[0]
    paths = [p for h in holders for p in (h.base, h.path)]
    within = made == inner[0] or used == inner[1]
    if within or operands_in(sources, used, paths) or set(paths) & set(bound_names(sources, made)):
        return pair
    files = {f.file for f in user_frames(producer.stack)}
    stored = [f for f in kept_at(sources, nodes, raised, holders, producer) if f.file in files]
    return (stored[0] if stored else inner[0]), inner[1]


def bound_names(sources: SourceTexts, frame: Frame) -> list[str]:
    """The names that the statement around this place assigns."""
    from graphdoc.source.module import Source

    text = sources.get(frame.file)
    if text is None:
        return []
    return list(Source(frame.file, text).names_bound_by(frame.line, frame.column or 1))


def beside_the_new(sources: SourceTexts, carry: OlderEdge, made: Frame, used: Frame) -> str:
    """The one attribute, or entry of one, that an expression takes beside what its own call of the function has made
    anew of the same kind: ``self.cache[0]`` of ``torch.cat([self.cache[0], k])``, where the older value is a ``k`` too.
    It is what has brought the older one. Empty where that is not so.
    """
    from graphdoc.source.module import Source

    text = sources.get(used.file)
    if text is None or not carry.remade or (made.file, made.function) != (used.file, used.function):
        return ""
    found = [o.text for o in Source(used.file, text).operands(used)] if used.column and made.line < used.line else []
    new = {*bound_names(sources, made)}
    kept = [n for n in dict.fromkeys(found) if n not in new and not n.isidentifier()]
    return kept[0] if len(kept) == 1 and new & {*found} else ""


def name_bound(sources: SourceTexts, frame: Frame) -> list[str]:
    """The name that the statement around this place gives to what is made at it; of several (``q, k = f(x), g(x)``)
    the one that stands for this part, and none where they are given out by what was made (``q, k = f(x)``)."""
    names = bound_names(sources, frame)
    root = tree(sources, frame.file)
    if len(names) < 2 or root is None:
        return names
    found = [n for n in ast.walk(root) if isinstance(n, ast.Assign) and covers(n, frame.line)]
    for target, value in (pair for n in found for pair in pairs(n)):
        one = frame_of(sources, frame.file, value)
        begins = (one.line, one.column) <= (frame.line, frame.column)
        if begins and (frame.end_line, frame.end_column) <= (one.end_line, one.end_column):
            return [text_of(target)] if text_of(target) in names else []
    return []


def statement_names(sources: SourceTexts, frame: Frame) -> set[str] | None:
    """The plain names in the statement around this place, read or bound; None where the source is not known."""
    from graphdoc.source.module import Source
    from graphdoc.source.places import Place

    statement = Source(frame.file, sources.get(frame.file, "")).node_statement(Place.of(frame))
    return None if statement is None else {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}


def grows_at(sources: SourceTexts, frame: Frame) -> bool:
    """Whether the statement at this place adds to what it binds: ``total += loss``, ``total = total + loss``."""
    root = tree(sources, frame.file)
    for node in ast.walk(root) if root is not None else ():
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        if covers(node, frame.line):
            read = set(names_in(node.value))
            if isinstance(node, ast.AugAssign) or any(text_of(t) in read for t in node.targets):
                return True
    return False


def operands_in(sources: SourceTexts, frame: Frame, names: Iterable[str]) -> list[str]:
    """Those of the names (or paths) that are read in the expression at this place."""
    from graphdoc.source.module import Source

    text = sources.get(frame.file)
    if text is None or not frame.column:
        return []
    found = {_spelling(o.text) for o in Source(frame.file, text).operands(frame)}
    return [n for n in dict.fromkeys(names) if _spelling(n) in found]


def slices_in(sources: SourceTexts, frame: Frame, names: Iterable[str]) -> list[str]:
    """Those of the paths of tensors of which the expression at this place reads a part (``self.codes[:, 1:]``)."""
    from graphdoc.source.module import Source

    text = sources.get(frame.file)
    if text is None or not frame.column:
        return []
    found: set[str] = set()
    for operand in Source(frame.file, text).operands(frame):
        node = parse_expression(operand.text)
        while isinstance(node, ast.Subscript):
            node = node.value
            found.add(key(node))
    return [n for n in dict.fromkeys(names) if _spelling(n) in found]


def attributes_of_one_object(sources: SourceTexts, frame: Frame, holders: Iterable[Holder]) -> list[str]:
    """The paths by which the methods of one class reach a tensor that an attribute of their object holds, where the
    place lies in a method of that class: ``self`` means the same in all of them."""
    root = tree(sources, frame.file)
    cls = next(
        (n for n in ast.walk(root or ast.Module([], [])) if isinstance(n, ast.ClassDef) and covers(n, frame.line)),
        None,
    )
    methods = {m.name: m for m in (cls.body if cls is not None else ()) if isinstance(m, ast.FunctionDef)}
    first = {name: m.args.args[0].arg for name, m in methods.items() if m.args.args}
    here = next((name for name, m in methods.items() if covers(m, frame.line)), "")
    return [
        h.path
        for h in holders
        if h.file == frame.file
        and h.function.rpartition(".")[2] in first
        and [s.kind for s in h.steps] == ["name", "attribute"]
        and first[h.function.rpartition(".")[2]] == h.steps[0].key == first.get(here)
    ]


def _spelling(path: str) -> str:
    node = parse_expression(path)
    return key(node) if node is not None else path


def uses_in_loss(sources: SourceTexts, call: Frame, names: Sequence[str], depth: int = 3) -> list[tuple[Frame, str]]:
    """Where the loss of a backward call takes up one of these names: in the call itself or in what was assigned to it.

    Followed through at most ``depth`` assignments of the function that makes the call. One value may enter by several
    ways: an expression that reads it is followed by what else it reads.
    """
    root = tree(sources, call.file)
    if root is None or not names:
        return []
    scope: ast.AST = function_around(root, call.line) or root
    start = [s for s in statements(scope) if covers(s, call.line) and isinstance(s, ast.Expr)]
    # Of several on one line, the one that the call stands in.
    start = [s for s in start if s.col_offset < call.column] if call.column else start
    if not start:
        return []
    value = start[-1].value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "backward":
        value = value.func.value
    behind = made_of(scope, value, lambda e: bool(read_in(e, names)), depth, names)
    return [(frame_of(sources, call.file, e, call.function), read_in(e, names)[0]) for e in behind.found]


def read_in(expression: ast.expr, names: Iterable[str]) -> list[str]:
    """Those of the names (or paths) that an expression reads."""
    read = {ast.unparse(n) for n in ast.walk(expression) if isinstance(n, ast.Name | ast.Attribute)}
    return [n for n in names if n in read]


def read_behind(sources: SourceTexts, frame: Frame, path: str) -> bool:
    """Whether the statements behind the one at ``frame``, in its function, read a path that it assigns."""
    root = tree(sources, frame.file)
    scope: ast.AST | None = (function_around(root, frame.line) or root) if root is not None else None
    last = max(frame.line, frame.end_line)
    return any(
        isinstance(n, ast.Name | ast.Attribute)
        and isinstance(n.ctx, ast.Load)
        and n.lineno > last
        and _spelling(ast.unparse(n)) == _spelling(path)
        for s in (statements(scope) if scope is not None else ())
        if (s.end_lineno or s.lineno) > last
        for n in ast.walk(s)
    )
