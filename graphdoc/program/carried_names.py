"""Names of a carried value: where it is made and taken up, under which name it goes on, and sums that it grows in."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from graphdoc.evidence import Evidence, Folded, Frame, Holder, Node, OlderEdge, SourceTexts
from graphdoc.evidence.lookup import node_with
from graphdoc.program import bindings
from graphdoc.program.container_entries import kept_at, statements, statements_at, user_frames
from graphdoc.program.spans import innermost_user, node_loop_of
from graphdoc.source.module import Loop, each, has, is_method_call, walked
from graphdoc.source.paths import covers, key, last_word, pairs, parse_expression, plain_names, spelled, targets_of

# Where a value that was made is taken up and read on: where two passes meet, its names, the losses that use it.


def meeting(producer: Node | None, consumer: Node | None) -> tuple[Frame, Frame] | None:
    """The innermost function in which both a value's making and its use are under way: (where made, where used).

    Where that is one and the same call, which led to different functions at different times (``self.value(batch)`` of
    several classes), nothing is handed on there: the places are those in the functions that it led to.
    """
    making = user_frames(producer.stack) if producer is not None else []
    using = user_frames(consumer.stack) if consumer is not None else []
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
        if not made.in_function_of(used):
            return None
        if (made.line, made.column) != (used.line, used.column):
            return made, used
    return None


def ends(run: Evidence, carry: OlderEdge) -> tuple[Frame, Frame] | None:
    """Where a carried value gets its graph and where it is taken up, in the function that has both in its hands.

    A value that goes from one function to another in an attribute passes no caller of both: then it is where it is
    stored and where it is read.
    """
    producer, consumer = run.node(carry.producer), run.node(carry.consumer)
    pair = meeting(producer, consumer)
    holders = carry.tensor.holders
    if pair is None or producer is None or consumer is None or not holders:
        return pair
    made, used = pair
    if not all(any(s.kind == "attribute" for s in h.steps) for h in holders):
        return pair
    inner = user_frames(producer.stack)[0], user_frames(consumer.stack)[0]
    paths = [p for h in holders for p in (h.base, h.path)]
    within = made == inner[0] or used == inner[1]
    if within or operands_in(run.sources, used, paths) or set(paths) & set(bound_names(run.sources, made)):
        return pair
    files = {f.file for f in user_frames(producer.stack)}
    stored = [f for f in kept_at(run, holders, producer) if f.file in files]
    return (stored[0] if stored else inner[0]), inner[1]


def bound_names(sources: SourceTexts, frame: Frame) -> list[str]:
    """The names that the statement around this place assigns."""

    node = bindings.statement_at(sources, frame)
    return [key(t) for t in targets_of(node)] if node is not None else []


def beside_the_new(sources: SourceTexts, carry: OlderEdge, made: Frame, used: Frame) -> str:
    """The one attribute, or entry of one, that an expression takes beside what its own call of the function has made
    anew of the same kind: ``self.cache[0]`` of ``torch.cat([self.cache[0], k])``, where the older value is a ``k`` too.
    It is what has brought the older one. Empty where that is not so.
    """

    if not carry.remade or not made.in_function_of(used):
        return ""
    found = bindings.source_at(sources, used).operands(used) if used.column and made.line < used.line else ()
    new = {*bound_names(sources, made)}
    kept = [n for n in dict.fromkeys(found) if n not in new and not n.isidentifier()]
    return kept[0] if len(kept) == 1 and new & {*found} else ""


def name_bound(sources: SourceTexts, frame: Frame) -> list[str]:
    """The name that the statement around this place gives to what is made at it; of several (``q, k = f(x), g(x)``)
    the one that stands for this part, and none where they are given out by what was made (``q, k = f(x)``)."""
    names = bound_names(sources, frame)
    root = bindings.tree(sources, frame.file)
    if len(names) < 2:
        return names
    found = [n for n in each(root, ast.Assign) if covers(n, frame.line)]
    for target, value in (pair for n in found for pair in pairs(n)):
        if frame.lies_in(bindings.frame_of(sources, frame.file, value)):
            return [bindings.text_of(target)] if bindings.text_of(target) in names else []
    return []


def statement_names(sources: SourceTexts, frame: Frame) -> set[str] | None:
    """The plain names in the statement around this place, read or bound; None where the source is not known."""

    statement = bindings.statement_at(sources, frame)
    return None if statement is None else plain_names(statement)


def grows_at(sources: SourceTexts, frame: Frame) -> bool:
    """Whether the statement at this place adds to what it binds: ``total += loss``, ``total = total + loss``."""
    for node in bindings.every_node(sources, frame.file):
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        if covers(node, frame.line):
            read = set(bindings.names_in(node.value))
            if isinstance(node, ast.AugAssign) or any(bindings.text_of(t) in read for t in node.targets):
                return True
    return False


def operands_in(sources: SourceTexts, frame: Frame, names: Iterable[str]) -> list[str]:
    """Those of the names (or paths) that are read in the expression at this place."""

    found = {spelled(o) for o in bindings.source_at(sources, frame).operands(frame)} if frame.column else ()
    return [n for n in dict.fromkeys(names) if spelled(n) in found]


def slices_in(sources: SourceTexts, frame: Frame, names: Iterable[str]) -> list[str]:
    """Those of the paths of tensors of which the expression at this place reads a part (``self.codes[:, 1:]``)."""

    found: set[str] = set()
    for operand in bindings.source_at(sources, frame).operands(frame) if frame.column else ():
        node = parse_expression(operand)
        while isinstance(node, ast.Subscript):
            node = node.value
            found.add(key(node))
    return [n for n in dict.fromkeys(names) if spelled(n) in found]


def attributes_of_one_object(sources: SourceTexts, frame: Frame, holders: Iterable[Holder]) -> list[str]:
    """The paths by which the methods of one class reach a tensor that an attribute of their object holds, where the
    place lies in a method of that class: ``self`` means the same in all of them."""
    cls = next(
        (n for n in each(bindings.tree(sources, frame.file), ast.ClassDef) if covers(n, frame.line)),
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


def uses_in_loss(sources: SourceTexts, call: Frame, names: Sequence[str], depth: int = 3) -> list[tuple[Frame, str]]:
    """Where the loss of a backward call takes up one of these names: in the call itself or in what was assigned to it.

    Followed through at most ``depth`` assignments of the function that makes the call. One value may enter by several
    ways: an expression that reads it is followed by what else it reads.
    """
    scope = bindings.scope_at(sources, call)
    if not names:
        return []
    start = [s for s in statements(scope) if covers(s, call.line) and isinstance(s, ast.Expr)]
    # Of several on one line, the one that the call stands in.
    start = [s for s in start if s.col_offset < call.column] if call.column else start
    if not start:
        return []
    value = start[-1].value
    if is_method_call(value, "backward"):
        value = value.func.value
    behind = bindings.made_of(scope, value, lambda e: bool(read_in(e, names)), depth, names)
    return [(bindings.frame_of(sources, call.file, e, call.function), read_in(e, names)[0]) for e in behind.found]


def read_in(expression: ast.expr, names: Iterable[str]) -> list[str]:
    """Those of the names (or paths) that an expression reads."""
    read = {ast.unparse(n) for n in each(expression, ast.Name, ast.Attribute)}
    return [n for n in names if n in read]


def read_behind(sources: SourceTexts, frame: Frame, path: str) -> bool:
    """Whether the statements behind the one at ``frame``, in its function, read a path that it assigns."""
    scope = bindings.scope_at(sources, frame)
    last = max(frame.line, frame.end_line)
    return any(
        isinstance(n, ast.Name | ast.Attribute)
        and isinstance(n.ctx, ast.Load)
        and n.lineno > last
        and spelled(ast.unparse(n)) == spelled(path)
        for s in statements(scope)
        if (s.end_lineno or s.lineno) > last
        for n in walked(s)
    )


# The names under which a carried value goes on: one that is taken up and bound anew, or one that it is stored as.

Places = tuple[Frame, Frame]
"""Where a value was made, and where it was taken up."""
_DEEPEST = 4
"""Calls within calls that are followed."""
_CUT = frozenset({"detach", "data", "item", "numpy", "tolist"})
"""What is read through these has come without a graph."""


def carried_on(run: Evidence, carry: OlderEdge) -> tuple[Frame, str] | None:
    """The statement ``state = cell(x, state)`` that carries a value on, and the name; None where none does.

    The statement around the use has to bind a name under which the value was made, in the same function, at another
    place, and the name has to hold that value still when it is taken up: a plain name does so only where that
    statement reads it, or another name that was bound to it (``loss = f(kept(x))`` carries no ``loss`` on).
    """
    pair = _ends(run.nodes, carry)
    if pair is None or _renewed(carry, *pair):
        return None
    one = (pair[0].line, pair[0].column) == (pair[1].line, pair[1].column)
    if one and (kept := fed_back(run.sources, pair[1])):
        return pair[1], kept[0]
    # Where the function that made it takes it up itself, the places from which it was called tell as well.
    for made, used in filter(None, (None if one else pair, _at(run.nodes, carry, parting))):
        before, after = _names_given(run.sources, carry, made), bound_names(run.sources, used)
        name = next((n for n in after if n in before and (not n.isidentifier() or _reads(run.sources, used, n))), "")
        if name:
            return used, name
    return handed_round(run, carry)


def fed_back(sources: SourceTexts, frame: Frame) -> list[str]:
    """The attributes that the statement at a place reads and binds (``self.h = self.cell(x, self.h)``): what it has
    made in one run, and nothing else, is what it takes up in the next, wherever the function was called from."""
    kept = operands_in(sources, frame, [n for n in bound_names(sources, frame) if "." in n])
    nodes = (n for s in statements_at(sources, frame) for n in walked(s))
    cut = {ast.unparse(n.value) for n in nodes if isinstance(n, ast.Attribute) and n.attr in _CUT}
    return [name for name in kept if name not in cut]


def _names_given(sources: SourceTexts, carry: OlderEdge, made: Frame) -> list[str]:
    """The names that the statement which makes a value binds; of several those that hold this very value still."""
    names = bound_names(sources, made)
    still = {h.base for h in carry.tensor.holders if h.exact and is_local(h, made)}
    return [n for n in names if n in still] or names


def handed_round(run: Evidence, carry: OlderEdge) -> tuple[Frame, str] | None:
    """The call ``out, state = model(x, state)`` that has made a value below itself and been given it again.

    Of two runs of one call, what the first has made and nobody holds any more can have come to the second through a
    name alone that the statement binds and reads. Where something holds what the second run has made in its place,
    it was that name, or what is kept under it: ``state[0].v``.
    """
    producer, consumer = run.node(carry.producer), run.node(carry.consumer)
    if producer is None or consumer is None or any(h.exact for h in carry.tensor.holders):
        return None
    runs = []
    for made, used in zip(user_frames(producer.stack)[::-1], user_frames(consumer.stack)[::-1], strict=False):
        if (made.file, made.function, made.line, made.column) != (used.file, used.function, used.line, used.column):
            break
        runs.append(used)
    for frame in reversed(runs):
        names = [n for n in bound_names(run.sources, frame) if n.isidentifier() and _reads(run.sources, frame, n)]
        held = [n for n in names if all(h.base == n and is_local(h, frame) for h in carry.tensor.holders)]
        name = next((n for n in held if _outlives(run.sources, frame, n)), "")
        if name:
            return frame, name
    return None


def is_local(holder: Holder, frame: Frame) -> bool:
    """Whether what holds a value is reached by a name of this function."""
    return (holder.file, holder.function) == (frame.file, frame.function)


def _outlives(sources: SourceTexts, frame: Frame, name: str) -> bool:
    """Whether what a statement of a loop binds to a name is there still when the next iteration comes to it: nothing
    above it in the loop always gives the name another value.

    Between the two a backward call has run. A loop below that runs none is entered anew in each pass, with names that
    its function has got anew; not one that yields, which stands still while its user runs backward.
    """
    loop = node_loop_of(sources, frame)
    if loop is None or not (_runs_backward(sources, loop) or yields(loop)):
        return False
    above = _above(loop, frame)
    always = [loop, *(s for s in above if isinstance(s, ast.Assign | ast.AnnAssign))]
    return name not in {ast.unparse(t) for s in always for t in targets_of(s)}


def _above(loop: Loop, frame: Frame) -> list[ast.stmt]:
    """The statements of a loop that are done by the time that it comes to a place in it."""
    return [s for s in loop.body if s.lineno < frame.line and not covers(s, frame.line)]


def yields(loop: ast.AST) -> bool:
    """Whether a loop is one of a generator, which hands out a value in each of its rounds."""
    return has(loop, ast.Yield, ast.YieldFrom)


def _runs_backward(sources: SourceTexts, within: ast.AST) -> bool:
    """Whether code runs backward, itself or in a function of the program that it calls by its name."""
    roots = bindings.trees(sources)
    functions = [n for root in roots for n in each(root, ast.FunctionDef)]
    looked_at: set[str] = set()
    code = [within]
    for _ in range(_DEEPEST + 1):
        called = {last_word(n.func) for c in code for n in each(c, ast.Call)}
        if any(name == "grad" or name.endswith("backward") for name in called):
            return True
        code = [n for n in functions if n.name in called - looked_at]
        looked_at |= called
    return False


def carrier_of(sources: SourceTexts, call: Frame, name: str) -> str:
    """The name that goes on to the next round of the loop around a call, where another is given its value in each:
    ``answer`` for the ``old`` of ``old, answer = answer, model(x, answer)``; else the name itself."""
    loop = node_loop_of(sources, call)
    above = [s for s in (statements(loop) if loop is not None else ()) if s.lineno < call.line]
    given = [(ast.unparse(target), value) for s in above for target, value in pairs(s)]
    bound = {target for target, _ in given}
    sources_of = [value for target, value in given if target == name]
    if len(sources_of) == 1 and isinstance(sources_of[0], ast.Name) and sources_of[0].id in bound - {name}:
        return sources_of[0].id
    return name


def stored_on(run: Evidence, carry: OlderEdge) -> tuple[Frame, str] | None:
    """The statement ``self.memory = h`` under whose name a later pass takes up the value ``h``, and that name.

    Told where the name under which it was made holds a newer value by then: the old one comes in under another. None
    where no statement of the same function stores it so.
    """
    pair = _ends(run.nodes, carry)
    if pair is None or not _renewed(carry, *pair):
        return None
    made, used = pair
    consumer = run.node(carry.consumer)
    consumers = user_frames(consumer.stack) if consumer is not None else []
    scope = bindings.scope_at(run.sources, made)
    names = bound_names(run.sources, made)
    for s in reversed(list(statements(scope))):
        for target, value in pairs(s):
            path = ast.unparse(target)
            if ast.unparse(value) in names and path not in names and _takes_up(run.sources, consumers, used, path):
                return bindings.frame_of(run.sources, made.file, s, made.function), path
    return None


def _takes_up(sources: SourceTexts, frames: list[Frame], used: Frame, path: str) -> bool:
    """Whether a path is read where a value is taken up: in the function that made it, or in a method that this calls on
    its own object, where an attribute goes by the same path."""
    if operands_in(sources, used, [path]):
        return True
    owner = used.function.rpartition(".")[0]
    own = [f for f in frames if owner and f.file == used.file and f.function.rpartition(".")[0] == owner]
    return path.startswith("self.") and any(operands_in(sources, f, [path]) for f in own)


def names_taken_up(run: Evidence, carry: OlderEdge) -> list[str]:
    """The names by which the function that makes a value and takes it up again may read it there."""
    stored = stored_on(run, carry)
    if stored is not None:
        return [stored[1]]
    pair = _ends(run.nodes, carry)
    if pair is None or _renewed(carry, *pair):
        return []
    made, used = pair
    names = _names_given(run.sources, carry, made)
    # One statement that makes the value and takes it up binds what it makes of it, which is another value.
    known = [n for n in names if not n.isidentifier() or made.line != used.line or _reads(run.sources, used, n)]
    if len(known) < 2:
        return known
    # Of several that one statement binds, those that the expression which takes it up reads, or its line does.
    return operands_in(run.sources, used, known) or [n for n in known if _reads(run.sources, used, n)] or known


def could_carry(run: Evidence, carry: OlderEdge) -> list[Holder]:
    """What holds a value and may have brought it into the later pass: a local name may only where the statement below
    which it is taken up reads that name. All holders where none of them may.

    ``out = net(x)`` looks on where the network has kept its output on an attribute, and so does what ``out`` holds.
    """
    holders, consumer = list(carry.tensor.holders), run.node(carry.consumer)
    using = user_frames(consumer.stack) if consumer is not None else []
    out = []
    for holder in holders:
        frames = [f for f in using if is_local(holder, f)]
        looks_on = frames and not any(_reads(run.sources, f, holder.steps[0].key) for f in frames)
        if len(holder.steps) > 1:  # an object may be read by another name; one that is bound anew by then is not
            looks_on = looks_on and all(_is_new_by(run.sources, f, holder.steps[0].key) for f in frames)
        out += [] if looks_on else [holder]
    return out or holders


def _is_new_by(sources: SourceTexts, frame: Frame, name: str) -> bool:
    """Whether a name holds another object at a place than in the round before: the statement there binds it, or one
    above it in a loop around both gives it an empty container."""
    at: Frame | None = frame
    while at is not None and (loop := node_loop_of(sources, at)) is not None:
        given = [value for s in _above(loop, frame) for target, value in pairs(s) if ast.unparse(target) == name]
        if given and ast.unparse(given[-1]) in _EMPTY:
            return True
        at = bindings.frame_of(sources, frame.file, loop, frame.function)
    return name in bound_names(sources, frame)


_EMPTY = {"[]", "{}", "list()", "dict()", "set()", "deque()", "collections.deque()", "defaultdict(list)"}


def carrying_holders(run: Evidence, carry: OlderEdge) -> list[Holder]:
    """Of what could have carried a value what did, without the names that were only looking on.

    Where the value is taken up under the very name that the statement which made it gave to it, another local name
    (``old = state``) has carried nothing, and may have been bound long after.
    """
    could, holders = could_carry(run, carry), list(carry.tensor.holders)
    pair = ends(run, carry)
    if pair is not None and operands_in(run.sources, pair[1], bound_names(run.sources, pair[0])):
        read = set(operands_in(run.sources, pair[1], [h.base for h in holders]))
        holders = [h for h in holders if len(h.steps) > 1 or h.base in read]
    return [h for h in holders if h in could] or holders


def local_names_of(sources: SourceTexts, frame: Frame, paths: list[str]) -> list[str]:
    """The local names that hold, at a place, what one of these paths holds: ``h = self.h``, or that or a start value
    (``h = self.h if self.h is not None else zeros``). One that may be None is none of them."""
    scope = bindings.function_at(sources, frame)
    last: dict[str, ast.expr] = {}
    for s in statements(scope) if scope is not None else ():
        if s.lineno < frame.line:
            last.update({t.id: value for t, value in pairs(s) if isinstance(t, ast.Name)})
    return [name for name, value in last.items() if _holds_one(value, paths)]


def _holds_one(value: ast.expr, paths: list[str]) -> bool:
    if not isinstance(value, ast.IfExp):
        return ast.unparse(value) in paths
    sides = (value.body, value.orelse)
    none = any(isinstance(s, ast.Constant) and s.value is None for s in sides)
    return not none and any(ast.unparse(s) in paths for s in sides)


def _ends(nodes: list[Node], carry: OlderEdge) -> tuple[Frame, Frame] | None:
    """Where the value was made and where it was taken up, in the innermost function that does both."""
    return _at(nodes, carry, meeting)


def _at(nodes: list[Node], carry: OlderEdge, places: Callable[[Node, Node], Places | None]) -> Places | None:
    """The places of the two nodes of an edge, as one of the questions about a pair of nodes tells them."""
    producer, consumer = node_with(nodes, carry.producer), node_with(nodes, carry.consumer)
    return places(producer, consumer) if producer is not None and consumer is not None else None


def _reads(sources: SourceTexts, frame: Frame, name: str) -> bool:
    """Whether the statement around a place reads a name, or one that is bound to what that name held."""
    every = list(statements(bindings.scope_at(sources, frame)))
    around = [s for s in every if covers(s, frame.line)]
    if not around:
        return False
    read = set[str]().union(*map(_loaded, _head(around[-1])))
    also = {ast.unparse(t) for s in every for t, value in pairs(s) if name in _loaded(value)}
    return name in read or bool(also & read)


def _head(statement: ast.stmt) -> list[ast.AST]:
    """What a statement computes itself: of a loop or a block the header, not what stands in it."""
    parts = list(ast.iter_child_nodes(statement))
    own: list[ast.AST] = [p for p in parts if not isinstance(p, ast.stmt | ast.ExceptHandler | ast.match_case)]
    return own if len(own) < len(parts) else [statement]


def _loaded(node: ast.AST) -> set[str]:
    """The names that a statement or expression reads; what it adds to counts."""
    added = [n.target.id for n in each(node, ast.AugAssign) if isinstance(n.target, ast.Name)]
    return {n.id for n in each(node, ast.Name) if isinstance(n.ctx, ast.Load)} | set(added)


def _renewed(carry: OlderEdge, made: Frame, used: Frame) -> bool:
    """Whether the statement that made the value ran again before the one that takes it up: it stands above it, and has
    given this pass a value of its own, which owes nothing to the old one."""
    return carry.remade and not carry.recurrent and made.line < used.line


# Sums of losses: what takes a term into one, and whether backward is called on nothing but a sum that goes on.

_ADDING = ("Add", "Stack", "Cat")
"""Nodes through which a term goes into a sum."""

_OF_A_SUM = ("Div", "Mul", "Neg", "Sum", "Mean", "View", "Reshape", "Squeeze", "Unsqueeze", "Stack")
"""Nodes behind which a sum is still one: what is done to all of its terms alike."""


def takes_term(sources: SourceTexts, node: Node) -> bool:
    """Whether a node takes its older input into a sum as a term.

    A difference only where its statement adds to what it binds (``loss = loss - log_prob``): of two losses, it is what
    has changed between them.
    """
    return node.op.startswith(_ADDING) or (node.op.startswith("Sub") and grows(sources, node))


def grows(sources: SourceTexts, node: Node) -> bool:
    """Whether the statement that made the node adds to what it binds."""
    frame = innermost_user(node.stack)
    return frame is not None and grows_at(sources, frame)


def is_sum_that_goes_on(sources: SourceTexts, folded: Folded | None, carry: OlderEdge, consumer: Node | None) -> bool:
    """Whether the failing loss is a sum, up to a factor, and the older value is what that sum came to before.

    ``consumer`` is the node that takes the older value in.

    A state of one number that each round adds to is no such sum: the loss makes more of it than a mean.
    """
    if consumer is None or not carry.recurrent or not consumer.op.startswith("Add"):
        return False
    return grows(sources, consumer) and is_scaled(folded, carry.consumer)


def is_scaled(folded: Folded | None, node: int) -> bool:
    """Whether nothing but scaling lies between the root of the failing graph and the expression of a node."""
    home = folded.home(node) if folded is not None else -1
    if folded is None or home < 0 or folded.root < 0:
        return False
    part, seen = folded.root, set[int]()
    while part != home:
        below = {to for start, to, _ in folded.edges if start == part}
        scaling = all(op.startswith(_OF_A_SUM) for op in folded.parts[part].ops)
        if part in seen or len(below) != 1 or not scaling:
            return False
        seen.add(part)
        part = below.pop()
    return True


def is_divided(sources: SourceTexts, frame: Frame | None, holders: list[Holder]) -> bool:
    """Whether a division at a place divides the value that these names hold, and does not divide by it. Where a package
    divides, it is the loss that it was given."""
    if frame is None or not frame.user:
        return frame is not None
    node = bindings.expression_at(sources, frame)
    names = {h.base for h in holders}
    statement = bindings.statement_at(sources, frame)
    if isinstance(statement, ast.AugAssign):
        return key(statement.target) in names and not read_in(statement.value, names)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not read_in(node.right, names)
