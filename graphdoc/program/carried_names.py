"""Names of a carried value: where it is made and taken up, under which name it goes on, and sums that it grows in."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any

from graphdoc.evidence import Evidence, Folded, Frame, Holder, Node, OlderEdge, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.container_entries import kept_at, statements, statements_at, user_frames
from graphdoc.program.spans import innermost_user, level_of, node_loop_of
from graphdoc.source.expressions import TAKEN_OUT
from graphdoc.source.module import Loop, each, has, is_method_call
from graphdoc.source.paths import (
    called,
    covers,
    is_constant,
    is_read,
    key,
    only,
    pairs,
    parse_expression,
    plain_names,
    sides,
    spelled,
    targets_of,
)

# A value that comes into a later graph: where it was made and taken up, what holds it, under which name it goes on.

Places = tuple[Frame, Frame]
"""Where a value was made, and where it was taken up."""


@dataclass(eq=False, kw_only=True)
class Carried(OlderEdge):
    """An edge into an older graph with the nodes that made its value and took it up.

    ``taken`` is None where no later pass has taken it up: the round of the earlier call made it, behind that call.
    """

    run: Evidence = field(repr=False)
    made: Node
    taken: Node | None

    @property
    def holders(self) -> list[Holder]:
        """What holds the value; of one that nothing holds any more, what holds a later one of its making."""
        return self.tensor.holders

    @property
    def paths(self) -> list[str]:
        """How it may be spelled: what a statement can assign, then the whole path of each holder."""
        return [h.base for h in self.holders] + [h.path for h in self.holders]

    @property
    def is_of_earlier_loss(self) -> bool:
        """Whether it is an earlier loss, and not the failing one, that takes it in."""
        return any((c.consumer, c.producer) == (self.consumer, self.producer) for c in self.run.earlier_edges)

    @cached_property
    def making(self) -> list[Frame]:
        """The user's frames of its making, innermost first."""
        return user_frames(self.made.stack)

    @cached_property
    def using(self) -> list[Frame]:
        """The user's frames of its use, innermost first."""
        return user_frames(self.taken.stack) if self.taken is not None else []

    def kept_at(self, holders: Sequence[Holder] | None = None) -> list[Frame]:
        """The statements that keep it under the names of these of its holders, or of all."""
        return kept_at(self.run, self.holders if holders is None else holders, self.made)

    @cached_property
    def meeting(self) -> Places | None:
        """The innermost function in which both its making and its use are under way: (where made, where used).

        Where that is one and the same call, which led to different functions at different times
        (``self.value(batch)`` of several classes), nothing is handed on there: the places are those in the functions
        that it led to.
        """
        for i, made in enumerate(self.making):
            for j, used in enumerate(self.using):
                if made.in_function_of(used):
                    apart = made.start != used.start or not (i and j)
                    return (made, used) if apart else (self.making[i - 1], self.using[j - 1])
        return None

    @cached_property
    def parting(self) -> Places | None:
        """The first places, from the outermost function on, at which making and use part within one function."""
        level = level_of(self.making[::-1], self.using[::-1])
        return (level[0], level[1]) if level is not None and level[0].start != level[1].start else None

    @property
    def handing_on(self) -> Places | None:
        """Where it is made and used, in the very call of a function that handed it on.

        A value that only variables and containers hold goes from call to call by arguments and results: of two calls
        of one function from different places, neither has it in its hands while it is made and while it is used. One
        that an attribute holds is stored and read inside of them (``meeting``).
        """
        on_object = any(s.kind == "attribute" for h in self.holders for s in h.steps)
        return self.meeting if on_object else self.parting or self.meeting

    @cached_property
    def ends(self) -> Places | None:
        """Where it gets its graph and where it is taken up, in the function that has both in its hands.

        A value that goes from one function to another in an attribute passes no caller of both: then it is where it is
        stored and where it is read.
        """
        pair, sources = self.meeting, self.run.sources
        on_objects = self.holders and all(any(s.kind == "attribute" for s in h.steps) for h in self.holders)
        if pair is None or not on_objects:
            return pair
        made, used = pair
        within = made == self.making[0] or used == self.using[0] or operands_in(sources, used, self.paths)
        if within or set(self.paths) & set(bound_names(sources, made)):
            return pair
        files = {f.file for f in self.making}
        stored = [f for f in self.kept_at() if f.file in files]
        return (stored[0] if stored else self.making[0]), self.using[0]

    def beside_the_new(self, made: Frame, used: Frame) -> str:
        """The one attribute, or entry of one, that an expression takes beside what its own call of the function has
        made anew of the same kind: ``self.cache[0]`` of ``torch.cat([self.cache[0], k])``, where the older value is a
        ``k`` too. It is what has brought the older one. Empty where that is not so.
        """
        if not self.remade or not made.in_function_of(used) or not used.column or made.line >= used.line:
            return ""
        found = bindings.source_at(self.run.sources, used).operands(used)
        new = {*bound_names(self.run.sources, made)}
        kept = [n for n in dict.fromkeys(found) if n not in new and not n.isidentifier()]
        return kept[0] if len(kept) == 1 and new & {*found} else ""

    @cached_property
    def carried_on(self) -> tuple[Frame, str] | None:
        """The statement ``state = cell(x, state)`` that carries it on, and the name; None where none does.

        The statement around the use has to bind a name under which the value was made, in the same function, at another
        place, and the name has to hold that value still when it is taken up: a plain name does so only where that
        statement reads it, or another name that was bound to it (``loss = f(kept(x))`` carries no ``loss`` on).
        """
        pair, sources = self.meeting, self.run.sources
        if pair is None or self._renewed:
            return None
        one = pair[0].start == pair[1].start
        if one and (kept := fed_back(sources, pair[1])):
            return pair[1], kept[0]
        # Where the function that made it takes it up itself, the places from which it was called tell as well.
        for made, used in filter(None, (None if one else pair, self.parting)):
            before, after = self._names_given(made), bound_names(sources, used)
            name = next((n for n in after if n in before and (not n.isidentifier() or _reads(sources, used, n))), "")
            if name:
                return used, name
        return self.handed_round

    @property
    def _renewed(self) -> bool:
        """Whether the statement that made it ran again before the one that takes it up: it stands above it, and has
        given this pass a value of its own, which owes nothing to the old one."""
        pair = self.meeting
        return pair is not None and self.remade and not self.recurrent and pair[0].line < pair[1].line

    def _names_given(self, made: Frame) -> list[str]:
        """The names that the statement which makes it binds; of several those that hold this very value still."""
        names = bound_names(self.run.sources, made)
        still = {h.base for h in self.holders if h.exact and is_local(h, made)}
        return [n for n in names if n in still] or names

    @cached_property
    def handed_round(self) -> tuple[Frame, str] | None:
        """The call ``out, state = model(x, state)`` that has made it below itself and been given it again.

        Of two runs of one call, what the first has made and nobody holds any more can have come to the second through a
        name alone that the statement binds and reads. Where something holds what the second run has made in its place,
        it was that name, or what is kept under it: ``state[0].v``.
        """
        sources, of_old = self.run.sources, not any(h.exact for h in self.holders)
        ways = zip(self.making[::-1], self.using[::-1], strict=False)
        shared = [used for _, used in takewhile(lambda p: p[0].in_function_of(p[1]) and p[0].start == p[1].start, ways)]
        for frame in reversed(shared if of_old else ()):
            names = [n for n in bound_names(sources, frame) if n.isidentifier() and _reads(sources, frame, n)]
            held = [n for n in names if all(h.base == n and is_local(h, frame) for h in self.holders)]
            if name := next((n for n in held if _outlives(sources, frame, n)), ""):
                return frame, name
        return None

    @cached_property
    def stored_on(self) -> tuple[Frame, str] | None:
        """The statement ``self.memory = h`` under whose name a later pass takes up the value ``h``, and that name.

        Told where the name under which it was made holds a newer value by then: the old one comes in under another.
        None where no statement of the same function stores it so.
        """
        sources = self.run.sources
        if self.meeting is None or not self._renewed:
            return None
        made, used = self.meeting
        names = bound_names(sources, made)
        for s in reversed(statements(bindings.scope_at(sources, made))):
            for target, value in pairs(s):
                path = ast.unparse(target)
                if ast.unparse(value) in names and path not in names and self._takes_up(used, path):
                    return bindings.frame_of(sources, made, s), path
        return None

    def _takes_up(self, used: Frame, path: str) -> bool:
        """Whether a path is read where it is taken up: in the function that made it, or in a method that this calls on
        its own object, where an attribute goes by the same path."""
        owner = used.function.rpartition(".")[0] if path.startswith("self.") else ""
        own = (f for f in self.using if owner and f.file == used.file and f.function.rpartition(".")[0] == owner)
        return any(operands_in(self.run.sources, f, [path]) for f in (used, *own))

    @cached_property
    def names_taken_up(self) -> list[str]:
        """The names by which the function that makes it and takes it up again may read it there."""
        if self.meeting is None or self._renewed:
            return [self.stored_on[1]] if self.stored_on is not None else []
        (made, used), sources = self.meeting, self.run.sources
        names = self._names_given(made)
        # One statement that makes the value and takes it up binds what it makes of it, which is another value.
        known = [n for n in names if not n.isidentifier() or made.line != used.line or _reads(sources, used, n)]
        if len(known) < 2:
            return known
        # Of several that one statement binds, those that the expression which takes it up reads, or its line does.
        return operands_in(sources, used, known) or [n for n in known if _reads(sources, used, n)] or known

    @cached_property
    def could_carry(self) -> list[Holder]:
        """What holds it and may have brought it into the later pass: a local name may only where the statement below
        which it is taken up reads that name. All holders where none of them may.

        ``out = net(x)`` looks on where the network has kept its output on an attribute, and so does what ``out`` holds.
        """
        sources, out = self.run.sources, []
        for holder in self.holders:
            frames = [f for f in self.using if is_local(holder, f)]
            looks_on = frames and not any(_reads(sources, f, holder.steps[0].key) for f in frames)
            if len(holder.steps) > 1:  # an object may be read by another name; one that is bound anew by then is not
                looks_on = looks_on and all(_is_new_by(sources, f, holder.steps[0].key) for f in frames)
            out += [] if looks_on else [holder]
        return out or list(self.holders)

    @property
    def carrying_holders(self) -> list[Holder]:
        """Of what could have carried it what did, without the names that were only looking on.

        Where it is taken up under the very name that the statement which made it gave to it, another local name
        (``old = state``) has carried nothing, and may have been bound long after.
        """
        holders, pair, sources = self.holders, self.ends, self.run.sources
        if pair is not None and operands_in(sources, pair[1], bound_names(sources, pair[0])):
            read = set(operands_in(sources, pair[1], [h.base for h in holders]))
            holders = [h for h in holders if len(h.steps) > 1 or h.base in read]
        return [h for h in holders if h in self.could_carry] or holders


def carried(run: Evidence, edges: Iterable[OlderEdge]) -> list[Carried]:
    """The values of these edges; without those of which it is not known what made them."""
    ends = ((c, run.node(c.producer), run.node(c.consumer)) for c in edges)
    return [Carried(**vars(c), run=run, made=made, taken=taken) for c, made, taken in ends if made is not None]


def by_places(carries: Iterable[Carried]) -> list[Carried]:
    """One value for each pair of places at which values were made and taken up, newest first."""
    out: dict[tuple[Any, ...], Carried] = {}
    for c in carries:
        out.setdefault(tuple(tuple(f.start for f in frames) for frames in (c.using, c.making)), c)
    return list(out.values())


# Names at a place: what a statement binds, reads and adds to, and the losses that use a value.


def bound_names(sources: SourceTexts, frame: Frame) -> list[str]:
    """The names that the statement around this place assigns."""

    node = bindings.statement_at(sources, frame)
    return [key(t) for t in targets_of(node)] if node is not None else []


def name_bound(sources: SourceTexts, frame: Frame) -> list[str]:
    """The name that the statement around this place gives to what is made at it; of several (``q, k = f(x), g(x)``)
    the one that stands for this part, and none where they are given out by what was made (``q, k = f(x)``)."""
    names, statement = bound_names(sources, frame), bindings.statement_at(sources, frame)
    of_parts = pairs(statement) if statement is not None else []
    own = [key(target) for target, value in of_parts if frame.lies_in(bindings.frame_of(sources, frame, value))]
    return names if len(names) < 2 else [n for n in own[:1] if n in names]


def grows_at(sources: SourceTexts, frame: Frame) -> bool:
    """Whether the statement at this place adds to what it binds: ``total += loss``, ``total = total + loss``."""
    node = bindings.statement_at(sources, frame)
    read = bindings.names_in(node.value) if isinstance(node, ast.Assign) else []
    return isinstance(node, ast.AugAssign) or any(bindings.text_of(t) in read for t in getattr(node, "targets", ()))


def operands_in(sources: SourceTexts, frame: Frame, names: Iterable[str]) -> list[str]:
    """Those of the names (or paths) that are read in the expression at this place."""

    found = {spelled(o) for o in bindings.source_at(sources, frame).operands(frame)} if frame.column else ()
    return [n for n in dict.fromkeys(names) if spelled(n) in found]


def slices_in(sources: SourceTexts, frame: Frame, names: Iterable[str]) -> list[str]:
    """Those of the paths of tensors of which the expression at this place reads a part (``self.codes[:, 1:]``)."""

    operands = bindings.source_at(sources, frame).operands(frame) if frame.column else ()
    parts = (n for o in operands for n in each(parse_expression(o), ast.Subscript))
    found = {key(n.value) for n in parts}
    return [n for n in dict.fromkeys(names) if spelled(n) in found]


def attributes_of_one_object(sources: SourceTexts, frame: Frame, holders: Iterable[Holder]) -> list[str]:
    """The paths by which the methods of one class reach a tensor that an attribute of their object holds, where the
    place lies in a method of that class: ``self`` means the same in all of them."""
    classes = (n for n in each(bindings.tree(sources, frame.file), ast.ClassDef) if covers(n, frame.line))
    methods = bindings.methods_of(next(classes, None))
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


def uses_in_loss(sources: SourceTexts, call: Frame, names: Sequence[str]) -> list[tuple[Frame, str]]:
    """Where the loss of a backward call takes up one of these names: in the call itself or in what was assigned to it.

    Followed through at most three assignments of the function that makes the call. One value may enter by several
    ways: an expression that reads it is followed by what else it reads.
    """
    scope = bindings.scope_at(sources, call)
    # Of several on one line, the one that the call stands in.
    start = [s for s in statements_at(sources, call) if not call.column or s.col_offset < call.column]
    calls = [s.value for s in start if isinstance(s, ast.Expr)]
    if not names or not calls:
        return []
    value = calls[-1].func.value if is_method_call(calls[-1], "backward") else calls[-1]
    behind = bindings.made_of(scope, value, lambda e: bool(read_in(e, names)), 3, names)
    return [(bindings.frame_of(sources, call, e), read_in(e, names)[0]) for e in behind.found]


def read_in(expression: ast.expr, names: Iterable[str]) -> list[str]:
    """Those of the names (or paths) that an expression reads."""
    read = {ast.unparse(n) for n in each(expression, ast.Name, ast.Attribute)}
    return [n for n in names if n in read]


def read_behind(sources: SourceTexts, frame: Frame, path: str) -> bool:
    """Whether the statements behind the one at ``frame``, in its function, read a path that it assigns."""
    last = max(frame.line, frame.end_line)
    behind = (s for s in statements(bindings.scope_at(sources, frame)) if (s.end_lineno or s.lineno) > last)
    read = (n for s in behind for n in each(s, ast.Name, ast.Attribute) if is_read(n) and n.lineno > last)
    return any(key(n) == spelled(path) for n in read)


# The names under which a carried value goes on: one that is taken up and bound anew, or one that it is stored as.

_DEEPEST = 4
"""Calls within calls that are followed."""


def fed_back(sources: SourceTexts, frame: Frame) -> list[str]:
    """The attributes that the statement at a place reads and binds (``self.h = self.cell(x, self.h)``): what it has
    made in one run, and nothing else, is what it takes up in the next, wherever the function was called from."""
    kept = operands_in(sources, frame, [n for n in bound_names(sources, frame) if "." in n])
    read = (n for s in statements_at(sources, frame) for n in each(s, ast.Attribute))
    cut = {ast.unparse(n.value) for n in read if n.attr in TAKEN_OUT}
    return [name for name in kept if name not in cut]


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
    if loop is None or not (_runs_backward(sources, loop) or has(loop, ast.Yield, ast.YieldFrom)):
        return False
    always = [loop, *(s for s in _above(loop, frame) if isinstance(s, ast.Assign | ast.AnnAssign))]
    return name not in {key(t) for s in always for t in targets_of(s)}


def _above(loop: Loop, frame: Frame) -> list[ast.stmt]:
    """The statements of a loop that are done by the time that it comes to a place in it."""
    return [s for s in loop.body if s.lineno < frame.line and not covers(s, frame.line)]


def _runs_backward(sources: SourceTexts, within: ast.AST) -> bool:
    """Whether code runs backward, itself or in a function of the program that it calls by its name."""
    functions = [n for _, n in bindings.everywhere(sources, ast.FunctionDef)]
    looked_at: set[str] = set()
    code = [within]
    for _ in range(_DEEPEST + 1):
        names = {called(n) for c in code for n in each(c, ast.Call)}
        code = [n for n in functions if n.name in names - looked_at]
        looked_at |= names
    return any(name == "grad" or name.endswith("backward") for name in looked_at)


def carrier_of(sources: SourceTexts, call: Frame, name: str) -> str:
    """The name that goes on to the next round of the loop around a call, where another is given its value in each:
    ``answer`` for the ``old`` of ``old, answer = answer, model(x, answer)``; else the name itself."""
    loop = node_loop_of(sources, call)
    above = [s for s in (statements(loop) if loop is not None else ()) if s.lineno < call.line]
    given = [(key(target), value) for s in above for target, value in pairs(s)]
    only_one = only([value for target, value in given if target == name])
    bound = {target for target, _ in given} - {name}
    return only_one.id if isinstance(only_one, ast.Name) and only_one.id in bound else name


def _is_new_by(sources: SourceTexts, frame: Frame, name: str) -> bool:
    """Whether a name holds another object at a place than in the round before: the statement there binds it, or one
    above it in a loop around both gives it an empty container."""
    at: Frame | None = frame
    while at is not None and (loop := node_loop_of(sources, at)) is not None:
        given = [value for s in _above(loop, frame) for target, value in pairs(s) if ast.unparse(target) == name]
        if given and ast.unparse(given[-1]) in _EMPTY:
            return True
        at = bindings.frame_of(sources, frame, loop)
    return name in bound_names(sources, frame)


_EMPTY = {"[]", "{}", "list()", "dict()", "set()", "deque()", "collections.deque()", "defaultdict(list)"}


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
    either = sides(value)
    return not any(is_constant(s, None) for s in either) and any(ast.unparse(s) in paths for s in either)


def _reads(sources: SourceTexts, frame: Frame, name: str) -> bool:
    """Whether the statement around a place reads a name, or one that is bound to what that name held."""
    every = statements(bindings.scope_at(sources, frame))
    read = {n for s in statements_at(sources, frame)[-1:] for part in _head(s) for n in _loaded(part)}
    also = {key(t) for s in every for t, value in pairs(s) if name in _loaded(value)}
    return name in read or bool(also & read)


def _head(statement: ast.stmt) -> list[ast.AST]:
    """What a statement computes itself: of a loop or a block the header, not what stands in it."""
    parts = list(ast.iter_child_nodes(statement))
    own: list[ast.AST] = [p for p in parts if not isinstance(p, ast.stmt | ast.ExceptHandler | ast.match_case)]
    return own if len(own) < len(parts) else [statement]


def _loaded(node: ast.AST) -> set[str]:
    """The names that a statement or expression reads; what it adds to counts."""
    added = {n.target.id for n in each(node, ast.AugAssign) if isinstance(n.target, ast.Name)}
    return plain_names(node, ast.Load) | added


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


def is_sum_that_goes_on(carry: Carried) -> bool:
    """Whether the failing loss is a sum, up to a factor, and the older value is what that sum came to before.

    A state of one number that each round adds to is no such sum: the loss makes more of it than a mean.
    """
    if carry.taken is None or not carry.recurrent or not carry.taken.op.startswith("Add"):
        return False
    return grows(carry.run.sources, carry.taken) and is_scaled(carry.run.folded, carry.consumer)


def is_scaled(folded: Folded | None, node: int) -> bool:
    """Whether nothing but scaling lies between the root of the failing graph and the expression of a node."""
    home = folded.home(node) if folded is not None else -1
    if folded is None or home < 0 or folded.root < 0:
        return False
    part, seen = folded.root, set[int]()
    while part != home and part not in seen and all(op.startswith(_OF_A_SUM) for op in folded.parts[part].ops):
        seen.add(part)
        below = folded.below([part])
        part = below.pop() if len(below) == 1 else part
    return part == home


def is_divided(sources: SourceTexts, frame: Frame | None, holders: list[Holder]) -> bool:
    """Whether a division at a place divides the value that these names hold, and does not divide by it. Where a package
    divides, it is the loss that it was given."""
    if frame is None or not frame.user:
        return frame is not None
    names = {h.base for h in holders}
    node, statement = bindings.expression_at(sources, frame), bindings.statement_at(sources, frame)
    if isinstance(statement, ast.AugAssign):
        return key(statement.target) in names and not read_in(statement.value, names)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not read_in(node.right, names)
