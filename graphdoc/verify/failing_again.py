"""Whether a patched run failed as before or elsewhere, what the patch has to do with that, and which signs it shows."""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeGuard

from graphdoc.diagnose import Found, findings_for
from graphdoc.evidence import SO_FAR, Evidence, Frame, Node, Sign
from graphdoc.finding import Finding
from graphdoc.line_changes import LineMatcher
from graphdoc.processes import same_failure
from graphdoc.program.bad_values import trouble_of
from graphdoc.program.spans import innermost_user
from graphdoc.source.module import each, is_method_call, walked
from graphdoc.source.paths import covers, is_read, plain_names, targets_of
from graphdoc.story.wording import folded
from graphdoc.verify.traces import Line

Back = Callable[[Line], Line]
"""The line of the original that a line of the patched text is."""


def fails_alike(original: Evidence, later: Evidence, back: Back) -> bool:
    """Whether the later failure is the original one: the same message from the same call, and of all that was damaged
    then, nothing has been mended.

    Messages alone do not tell: the next weight that is stepped too early has the same words. A failure of which a part
    is gone is another one, and what is left of it is the next thing to mend.
    """
    if not same_failure(original, later) or fails_elsewhere(original, later, back):
        return False
    was, left = damage(original, lambda line: line), damage(later, back)
    if not was:
        # No edge leads into what was freed where all of the graph was: then the node at which the engine stopped tells.
        was, left = met(original, lambda line: line), met(later, back)
    if original.probe and original.probe == later.probe:
        was, left = was | cuts_of(original, lambda line: line), left | cuts_of(later, back)
    return was <= left


def fails_elsewhere(original: Evidence, later: Evidence, back: Back) -> bool:
    """Whether the later failure came from another call than the original one: a fault of its own."""
    one, other = _call(original), _call(later)
    return one is not None and other is not None and one != back(other)


def damage(evidence: Evidence, back: Back) -> frozenset[tuple[object, ...]]:
    """What the failing graph needs and no longer has: overwritten tensors by where they are used and by each line that
    wrote them, where these are known, and the edges into parts that were freed, by where both ends were made.
    """
    found: set[tuple[object, ...]] = set()
    for stale in evidence.stale:
        used = _made(evidence.node(stale.node), back)
        for writer in {_innermost(w.stack, back) for w in stale.writes} or {None}:
            found.add(("overwritten", stale.tensor.name, used, writer))
    for edge in (*evidence.older_edges, *evidence.earlier_edges):
        if edge.dead:
            found.add(("freed", *(_made(evidence.node(n), back) for n in (edge.consumer, edge.producer))))
    return frozenset(found)


def met(evidence: Evidence, back: Back) -> frozenset[tuple[object, ...]]:
    """The node at which the failing call stopped, by what it is and where it was made."""
    node = evidence.failing_node
    return frozenset() if node is None else frozenset({("met", node.op, _made(node, back))})


def first_unfinite(evidence: Evidence, back: Back) -> tuple[str, Line | None] | None:
    """The operation from which the first value came that was not finite, and its line; None where it is not known."""
    trouble = trouble_of(evidence.signs, evidence.sources, evidence.raised, evidence.packages)
    born = trouble.born if trouble is not None else None
    return (born.operation, _innermost(born.stack, back)) if born is not None else None


def cuts_of(evidence: Evidence, back: Back) -> frozenset[tuple[object, ...]]:
    """Where the graph of a loss was seen to end: reason and place. Both runs must have been looked at for it."""
    places = ((c.reason, innermost_user(c.stack)) for c in evidence.cuts)
    return frozenset(("cut", reason, back((at.file, at.line))) for reason, at in places if at is not None)


def failing_place(evidence: Evidence) -> Frame | None:
    """The user's innermost line in the call that failed; None where none is known."""
    call = evidence.failing_call or evidence.raised
    return innermost_user(call.stack) if call is not None else None


def _call(evidence: Evidence) -> Line | None:
    frame = failing_place(evidence)
    return (frame.file, frame.line) if frame is not None else None


def _made(node: Node | None, back: Back) -> Line | None:
    """The user's innermost line that made a node."""
    return _innermost(node.stack, back) if node is not None else None


def _innermost(stack: list[Frame], back: Back) -> Line | None:
    frame = innermost_user(stack)
    return back((frame.file, frame.line)) if frame is not None else None


# Whether a failure behind a patch can come from the patch: what the changed statements lead to, by their names.

_NOBODYS = frozenset({"self", "cls", "torch", "np", "numpy", "nn", "F", "math", "os", "sys", "print"})
"""First names that stand for no value of the program's."""
_COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.FunctionDef, ast.ClassDef)
_FORWARD = "forward"
"""The method that runs where a module is called by whatever name it has."""


def leads_to(old: Mapping[str, str], new: Mapping[str, str], others: Mapping[str, str], at: Frame, cwd: str) -> bool:
    """Whether a value that the changed statements make, or write, can reach the expression that failed at ``at``.

    ``old`` and ``new`` are the texts of the changed files by absolute path, ``others`` those of further files of the
    program. Values are followed by name, through assignments, arguments and returns, over all of the files at once: a
    name that two functions share is taken for one. Where that cannot be told, the answer is yes.
    """
    path = os.path.realpath(os.path.join(cwd, at.file))
    try:
        trees = {file: ast.parse(text) for file, text in {**others, **new}.items()}
        failing = _expression(trees[path], at)
        names = _Names(list(trees.values()))
        tainted: set[str] = set()
        for file, text in new.items():
            before, after = changed_lines(old[file], text)
            if failing is None or (file == path and at.line in after and not _is_kept(failing, ast.parse(old[file]))):
                return True
            tainted |= names.written(ast.parse(old[file]), before) | names.written(trees[file], after)
    except (SyntaxError, ValueError, RecursionError, KeyError):
        return True
    return bool(failing is None or names.of(failing) & names.spread(tainted))


def _is_kept(failing: ast.AST, old: ast.Module) -> bool:
    """Whether an expression on a changed line stood in the old text word for word, and reads nothing but imports: it
    fails wherever and whenever it is executed."""
    imports = {n for node in each(old, ast.Import, ast.ImportFrom) for n in _binds(node)}
    if not isinstance(failing, ast.expr) or not plain_names(failing) <= imports:
        return False
    return any(ast.dump(node) == ast.dump(failing) for node in each(old, type(failing)))


def unbinds(old: Mapping[str, str], new: Mapping[str, str], name: str, at: Frame, cwd: str) -> bool:
    """Whether the change can be why ``name`` is not defined at ``at``: it stands on a changed line, or one binds it."""
    path = os.path.realpath(os.path.join(cwd, at.file))
    try:
        for file, text in new.items():
            before, after = changed_lines(old[file], text)
            if file == path and at.line in after:
                return True
            for whole, lines in ((ast.parse(old[file]), before), (ast.parse(text), after)):
                if any(name in _binds(node) for node, _ in _statements(whole) if lines & _lines(node)):
                    return True
    except (SyntaxError, ValueError, RecursionError, KeyError):
        return True
    return False


def _binds(node: ast.stmt) -> set[str]:
    """The names that a statement, with what stands in it, can bind or unbind."""
    found = {n.id for n in each(node, ast.Name) if not is_read(n)}
    for n in walked(node):
        if isinstance(n, ast.Import | ast.ImportFrom):
            found |= {(a.asname or a.name).partition(".")[0] for a in n.names}
        elif isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler) and n.name:
            found.add(n.name)
    return found


def _lines(node: ast.stmt) -> set[int]:
    """The lines of a statement; of one with others in it those of its head, on which depends whether these run."""
    end = node.body[0].lineno - 1 if isinstance(node, _COMPOUND) else node.end_lineno or node.lineno
    return set(range(node.lineno, max(end, node.lineno) + 1))


def changed_lines(old: str, new: str) -> tuple[set[int], set[int]]:
    """The numbers of the lines of each text that the other does not have."""
    before: set[int] = set()
    after: set[int] = set()
    for tag, i1, i2, j1, j2 in LineMatcher(old.splitlines(), new.splitlines()).get_opcodes():
        if tag != "equal":
            before |= set(range(i1 + 1, i2 + 1))
            after |= set(range(j1 + 1, j2 + 1))
    return before, after


class _Names:
    """What the names of a program's files are computed from."""

    def __init__(self, trees: list[ast.Module]) -> None:
        self.trees = trees
        self.stored: set[str] = set()
        self.parameters: dict[str, set[str]] = {}
        for tree in trees:
            for node, _ in _statements(tree):
                self.stored |= {t.attr for t in targets_of(node) if isinstance(t, ast.Attribute)}
                if _is_function(node):
                    self.parameters.setdefault(node.name, set()).update(_arguments(node))

    def of(self, node: ast.AST) -> set[str]:
        """The names that an expression reads: variables, functions, and attributes that the program itself sets."""
        found = plain_names(node)
        attributes = {n.attr for n in each(node, ast.Attribute)}
        found |= attributes & (self.stored | set(self.parameters))
        if any(self._called(n) == _FORWARD for n in each(node, ast.Call)):
            found.add(_FORWARD)
        return found - _NOBODYS

    def written(self, tree: ast.Module, lines: set[int]) -> set[str]:
        """The names that the statements on these lines bind or write into."""
        found: set[str] = set()
        for node, function in _statements(tree):
            if not lines & _lines(node):
                continue
            if _is_function(node):
                found.add(node.name)
            elif isinstance(node, ast.Return):
                found |= {function}
            elif isinstance(node, ast.Expr):
                found |= self.of(node) - {_FORWARD}  # a bare call may write into whatever it names
            found |= self._bound(node)
        return found - _NOBODYS - {""}

    def spread(self, tainted: set[str]) -> set[str]:
        """These names, and all that is computed from them."""
        flows: list[tuple[set[str], set[str]]] = []
        for tree in self.trees:
            for node, function in _statements(tree):
                parts = _own_expressions(node)
                to = {function} if isinstance(node, ast.Return) else self._bound(node)
                flows.append(({n for part in parts for n in self.of(part)}, to))
                flows += [self._passed(n) for part in parts for n in each(part, ast.Call)]
        found, size = set(tainted), -1
        while len(found) > size:
            size = len(found)
            for read, to in flows:
                if read & found:
                    found |= to - _NOBODYS - {""}
        return found

    def _bound(self, node: ast.stmt) -> set[str]:
        return {n for target in targets_of(node) for n in self.of(target)}

    def _passed(self, call: ast.Call) -> tuple[set[str], set[str]]:
        """From the names of a call's arguments to the parameters of what it may call, and to what it is called on."""
        given = {n for a in (*call.args, *(k.value for k in call.keywords)) for n in self.of(a)}
        on = self.of(call.func.value) if is_method_call(call) else set()
        own = self.parameters.get(self._called(call), set())
        return given, {*own, *self.parameters.get("__init__", ()), *on}

    def _called(self, call: ast.Call) -> str:
        """The function of the program's own that a call may run; empty for a library's."""
        func = call.func
        if isinstance(func, ast.Name):
            built = hasattr(builtins, func.id) or func.id in _NOBODYS
            return func.id if func.id in self.parameters else "" if built else _FORWARD
        if isinstance(func, ast.Attribute):
            return func.attr if func.attr in self.parameters else _FORWARD if func.attr in self.stored else ""
        return _FORWARD


def _is_function(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _statements(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Every statement with the name of the function that it lies in."""
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, function = pending.pop()
        if isinstance(node, ast.stmt):
            yield node, function
        inner = node.name if _is_function(node) else function
        pending += [(child, inner) for child in ast.iter_child_nodes(node)]


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    a = node.args
    every = (*a.posonlyargs, *a.args, *a.kwonlyargs, *(x for x in (a.vararg, a.kwarg) if x is not None))
    return {one.arg for one in every}


def _own_expressions(node: ast.stmt) -> list[ast.expr]:
    """The expressions of a statement, without the statements inside it."""
    found: list[ast.expr] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            found.append(child)
        elif isinstance(child, ast.withitem):
            found.append(child.context_expr)
    return found


def _expression(tree: ast.Module, at: Frame) -> ast.AST | None:
    """What failed: the expression at exactly this place (in plain text), else the innermost statement on the line."""
    for node in each(tree, ast.expr):
        ends = (node.lineno, node.col_offset + 1, node.end_lineno, (node.end_col_offset or 0) + 1)
        if ends == (at.line, at.column, at.end_line, at.end_column):
            return node
    on = [n for n, _ in _statements(tree) if covers(n, at.line)]
    return max(on, key=lambda n: n.lineno, default=None)


# Whether what was seen in a run that went on is seen in the patched one too.

NONFINITE = "nonfinite"
"""The kind of sign of a nan or inf (``graphdoc.capture.events.finite``)."""


def same_signs(a: list[Sign], b: list[Sign]) -> bool:
    """Whether anything that was seen in a run that went on was seen in another one too, of all the same parameters and
    the same optimizer: a second fault of the kind is one of its own, and of one that is gone in part the rest is."""
    return any(set(s.parameters) <= set(t.parameters) for s, t in _alike(a, b))


def _alike(a: list[Sign], b: list[Sign]) -> list[tuple[Sign, Sign]]:
    """Pairs of signs of one kind and optimizer. What is not finite is the same only where its values are: see below."""
    return [
        (s, t)
        for s in a
        for t in b
        if s.kind == t.kind != NONFINITE
        and not (s.weak or t.weak)
        and (min(s.optimizer, t.optimizer) < 0 or s.optimizer == t.optimizer)
    ]


def left_in_part(a: list[Sign], b: list[Sign]) -> str:
    """A doubt if a run still shows of some parameters what was seen of more."""
    for s, t in _alike(a, b):
        rest = set(s.parameters) & set(t.parameters)
        if rest and rest != set(s.parameters):
            return f"the same is still seen of {folded(rest)}"
    return ""


def left_over(a: list[Sign], b: list[Sign]) -> str:
    """A doubt if a run that was to end a nan still meets one, in other places than the original."""
    mine = any(s.kind == NONFINITE for s in a)
    other = next((s for s in b if s.kind == NONFINITE and not s.weak), None)
    if not mine or other is None:
        return ""
    more = f" and {len(other.parameters) - 2} more" if len(other.parameters) > 2 else ""
    whose = f" in {', '.join(other.parameters[:2])}{more}" if other.parameters else ""
    return f"another value that is not finite is still met{whose}"


# What the diagnosis tells of a patched run, and tells of no run of the unpatched program.


def told_anew(
    seen: Evidence, before: Sequence[Evidence], texts: Mapping[str, str], back: Back, ended: bool
) -> list[Found]:
    """Each finding of another cause, or of one at another place, than those of the runs ``before``; what is only
    possible is none. ``texts`` are what ran instead of the files on the disk, by the names of the evidence; ``back``
    gives the line of the original. Not ``ended``: the run was stopped, and a later step may contradict what was so
    until then.
    """
    seen.sources.update(texts)
    seen.signs = [s for s in seen.signs if ended or SO_FAR not in s.facts]
    seen.signs = [s for s in seen.signs if not any(same_signs([s], one.signs) for one in before)]
    found = [f for f in findings_for(seen)[0] if f.finding.confidence != "possible"]
    if not found:
        return []
    known = {(f.cause.code, at) for one in before for f in findings_for(one)[0] for at in _places(f.finding)}
    return [f for f in found if not any((f.cause.code, back(at)) in known for at in _places(f.finding))]


def _places(finding: Finding) -> set[Line]:
    """Where it sends the reader to."""
    spans = [s for s in finding.spans if s.role == "cause"] or finding.spans
    return {(s.file, s.line) for s in spans} or {("", 0)}
