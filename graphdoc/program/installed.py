"""What installed packages do themselves: their version and line, the call above, the switch that turned it on."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Frame, Node, Package, SourceTexts, node_with, package_of
from graphdoc.model import Role, Span
from graphdoc.program.bindings import call_at, class_around, expression_at, frame_of, statement_at, tree
from graphdoc.program.spans import Moment, code_at, frames, innermost_user, node_loop_of, span, where
from graphdoc.source.module import each, is_method_call, keyword
from graphdoc.source.paths import called, covers, is_constant, is_set, last_word, plain_names, root_of
from graphdoc.source.scopes import imported

MOST_FILES = 40
"""Files that are searched for what turned something on, and files of packages that are shown."""


@dataclass(frozen=True)
class Deed:
    """Something that an installed package's own code did: ``frame`` is its line, ``caller`` the user's expression.

    ``caller`` is None where no code of the user's was running.
    """

    package: Package
    frame: Frame
    caller: Frame | None

    @property
    def place(self) -> str:
        """``unet/encoding.py:101``: the file as the package has it."""
        return f"{self.package.path_of(self.frame.file)}:{self.frame.line}"


def deed_of(packages: list[Package], stack: Sequence[Frame]) -> Deed | None:
    """The deed of the innermost frame that is neither PyTorch's nor Python's, if that is a package's; else None."""
    for frame in reversed(stack):
        if frame.user:
            return None
        package = package_of(packages, frame.file)
        if package is not None:
            return Deed(package, frame, innermost_user(stack))
    return None


def keepers_of(packages: list[Package], stack: Sequence[Frame], name: str) -> Iterator[Deed]:
    """Where the package's functions that were under way keep something on an attribute of this name; of the innermost
    first."""
    for frame in reversed(stack):
        package = None if frame.user else package_of(packages, frame.file)
        if package is None or not name:
            continue
        for number, line in package.sources.get(frame.file, {}).items():
            if re.search(rf"\bself\.{re.escape(name)}\s*=[^=]", line):
                at = Frame(frame.file, int(number), 1, int(number), 1, frame.function, False)
                yield Deed(package, at, innermost_user(stack))


def deed_span(role: Role, deed: Deed, label: str, when: Moment | None = None) -> Span:
    """The package's line as a place, with its name and version in the label."""
    return span(role, deed.frame, f"{label}, in {deed.package.told}", when=when)


def package_sources(packages: list[Package]) -> dict[str, str]:
    """What is kept of packages' files, to be shown: other lines than those of the functions on the stacks are empty."""
    files = [(package, file) for package in packages for file in package.sources]
    return {file: package.text(file) for package, file in files[:MOST_FILES]}


def same_call(sources: SourceTexts, one: Deed, other: Deed) -> bool:
    """Whether both happened within one call of the user's, so that nothing the user does to its result lies between.

    Two deeds below one expression in a loop that takes up its own result (``h = layer(h)``) can be of two rounds.
    """
    a, b = one.caller, other.caller
    if a is None or b is None:
        return a is b
    return a.extent == b.extent and not _feeds_itself(sources, a)


def _feeds_itself(sources: SourceTexts, frame: Frame) -> bool:
    owner, call, loop = statement_at(sources, frame), expression_at(sources, frame), node_loop_of(sources, frame)
    own = {n for t in owner.targets for n in each(t, ast.Name)} if isinstance(owner, ast.Assign) else set()
    bound = {n.id for n in own} & (plain_names(call) if call is not None else set())
    names = {n.id for n in own}
    return bool(bound) and loop is not None and {n for n in each(loop, ast.Name) if is_set(n) and n.id in names} <= own


# -- what turned it on -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Switch:
    """An argument of the user's by which a package does what it does: its name, its place, and the call around it."""

    name: str
    frame: Frame
    call: Frame


def switch_of(sources: SourceTexts, deed: Deed) -> Switch | None:
    """The user's argument under whose condition the package's line stands: ``residual=True`` for ``if self.residual:``.

    Found by the name that both have, in a call of something that comes from that package, or in a call whose own name
    says that it switches this on (``model.residual_enable()``).
    """
    return next(iter(switches_of(sources, deed)), None)


def switches_of(sources: SourceTexts, deed: Deed) -> list[Switch]:
    """The same, in every call that gives it."""
    for name in _conditions(deed):
        every = (s for file in list(sources)[:MOST_FILES] for s in given(sources, file, name))
        found = [s for s in every if s.frame is s.call or _comes_from(sources, s, deed.package)]
        if found:
            return found
    return []


def _conditions(deed: Deed) -> list[str]:
    """The names that the ``if`` statements around a package's line ask for, innermost first."""
    lines = deed.package.sources.get(deed.frame.file, {})
    number = deed.frame.line
    first = number
    while str(first - 1) in lines and not re.match(r"\s*(async\s+)?def\s", lines.get(str(first), "")):
        first -= 1
    last = number
    while str(last + 1) in lines:
        last += 1
    block = textwrap.dedent("\n".join(lines.get(str(n), "") for n in range(first, last + 1)))
    try:
        root = ast.parse(block)
    except (SyntaxError, ValueError):
        return []
    around = [n for n in each(root, ast.If) if any(covers(s, number - first + 1) for s in n.body)]
    return [name for n in sorted(around, key=lambda n: -n.lineno) for name in _asked(n.test)]


def _asked(test: ast.expr) -> Iterator[str]:
    """The names of which a condition says that they are true or something."""
    match test:
        case ast.BoolOp(op=ast.And(), values=parts):
            yield from (name for part in parts for name in _asked(part))
        case ast.Compare(left=left, ops=[ast.IsNot() | ast.Eq() | ast.Gt() | ast.NotEq(), *_]):
            yield from _asked(left)
        case ast.Attribute() | ast.Name():
            yield last_word(test)


def given(sources: SourceTexts, file: str, name: str) -> Iterator[Switch]:
    """Where the user's code gives a thing of this name a value that is not plainly off."""
    for node in each(tree(sources, file), ast.Call):
        call = frame_of(sources, file, node)
        for k in node.keywords:
            if k.arg == name and not (isinstance(k.value, ast.Constant) and not k.value.value):
                yield Switch(name, frame_of(sources, file, k), call)
        if is_method_call(node) and node.func.attr in (f"{name}_enable", f"enable_{name}"):
            yield Switch(name, call, call)


def makers_of(sources: SourceTexts, deed: Deed, stack: Sequence[Frame]) -> list[Frame]:
    """The user's calls of what he imported from a package, where he chose its code: of a class whose method ran (on
    ``stack``), else the only one that makes an object, or the only one at all; none where several may be meant."""
    ran = {f.function.partition(".")[0] for f in stack if "." in f.function}
    roots = ((file, tree(sources, file)) for file in list(sources)[:MOST_FILES])
    calls = ((file, n) for file, root in roots for n in each(root, ast.Call) if _imported(root, n, deed.package))
    out = [(called(n), frame_of(sources, file, n)) for file, n in calls]
    of_class = [f for name, f in out if name in ran]
    made = [f for name, f in out if name[:1].isupper()] or [f for _, f in out]
    return of_class or (made if len(made) == 1 else [])


def _comes_from(sources: SourceTexts, switch: Switch, package: Package) -> bool:
    """Whether what is called there was imported from the package."""
    root = tree(sources, switch.call.file)
    call = call_at(sources, switch.call)
    return call is not None and _imported(root, call, package)


def _imported(root: ast.Module, call: ast.Call, package: Package) -> bool:
    """Whether the function that is called was imported from the package: its first name says."""
    modules = {package.path_of(f).partition("/")[0] for f in package.files}
    modules |= {m.removesuffix(".py") for m in modules}
    first = root_of(call.func)
    return isinstance(first, ast.Name) and imported(root).get(first.id, "").partition(".")[0] in modules


def turned_on(sources: SourceTexts, switch: Switch) -> str:
    """``residual=True` at train.py:6`` for a sentence."""
    whole = switch.frame.line == switch.frame.end_line
    code = code_at(sources, switch.frame) if whole else f"{switch.name}=…"
    return f"`{code}` at {where(switch.frame)}"


# The calls that build what writes in place: a module or function that is given a flag such as ``inplace=True``.

MOST_FLAGS = 6


def builders(sources: SourceTexts, frame: Frame | None, stack: list[Frame]) -> list[Frame]:
    """The calls that gave a module or function ``inplace=True``: for a write inside what is called at this place.

    Looked for at the place itself, then in what builds the called attribute, then by the class on the stack.
    """
    node = expression_at(sources, frame)
    call = node if isinstance(node, ast.Call) else getattr(statement_at(sources, frame), "value", None)
    if frame is None or not isinstance(call, ast.Call):
        return []
    here = list(_flagged(call))
    if here:
        return [frame_of(sources, frame, c) for c in here]
    found: list[Frame] = []
    for file in (frame.file, *(f for f in sources if f != frame.file)):
        for value in _values(sources, file, called(call)) if not found else ():
            found += [frame_of(sources, file, c) for c in _flagged(value)]
            factories = (n.func.id for n in each(value, ast.Call) if isinstance(n.func, ast.Name))
            found += [at for name in factories for at in _factory(sources, file, name)]
    kind = next((f.function.partition(".")[0] for f in reversed(stack) if f.function.endswith(".forward")), "")
    if kind and not found:
        flagged = ((file, c) for file in sources for c in _flagged(tree(sources, file)))
        of_kind = ((file, c) for file, c in flagged if kind in map(last_word, each(c, ast.Attribute, ast.Name)))
        found = [frame_of(sources, *at) for at in of_kind]
    # What runs a method was built by its class rather than by another one.
    ran = {f.function.partition(".")[0] for f in stack if f.user and "." in f.function}
    around = {f.start: class_around(tree(sources, f.file), f.line) for f in found}
    unique = sorted({f.start: f for f in found}.values(), key=lambda f: getattr(around[f.start], "name", "") not in ran)
    return unique if len(unique) <= MOST_FLAGS else []


def _flagged(scope: ast.AST) -> Iterator[ast.Call]:
    """Calls with ``inplace=True``, or with True where torch's class of that name takes ``inplace``."""
    from graphdoc.source.expressions import POSITIONS

    for node in each(scope, ast.Call):
        at = POSITIONS.get(last_word(node.func))
        given = keyword(node, "inplace") or (node.args[at] if at is not None and len(node.args) > at else None)
        if is_constant(given, True):
            yield node


def _values(sources: SourceTexts, file: str, name: str) -> list[ast.expr]:
    root = tree(sources, file)
    return [n.value for n in each(root, ast.Assign) if name in map(last_word, n.targets)] if name else []


def _factory(sources: SourceTexts, file: str, name: str) -> list[Frame]:
    """The flag inside a factory: ``act = partial(nn.ReLU, inplace=True)``, ``def act(): return nn.ReLU(True)``."""
    for other in (file, *(f for f in sources if f != file)):
        defined = (n for n in each(tree(sources, other), ast.FunctionDef, ast.ClassDef) if n.name == name)
        scopes = [*_values(sources, other, name), *defined]
        if found := [frame_of(sources, other, c) for s in scopes for c in _flagged(s)]:
            return found
    return []


# The module of FSDP2 whose parameters were not gathered in backward, and the write that dropped the hook for it.


@dataclass(frozen=True)
class DroppedHook:
    """``module``: its name in the model, or its class. ``called`` calls it, ``write`` writes into what it returned."""

    module: str
    called: Frame | None
    write: Node


def dropped_hook(extras: dict[str, Any], nodes: list[Node]) -> DroppedHook | None:
    """The first write into what the module had returned; None where its hook ran, or nothing was written."""
    told = extras.get("resharded")
    told = told if isinstance(told, dict) else {}
    writes = told.get("writes") if not told.get("gathered", True) else None
    first = writes[0] if isinstance(writes, list) and writes and isinstance(writes[0], dict) else {}
    node = node_with(nodes, first.get("node", -1))
    if node is None or innermost_user(node.stack) is None:
        return None
    name = str(told.get("module") or next(iter(told.get("classes") or ()), "a module"))
    return DroppedHook(name, innermost_user(frames(first.get("called"))), node)
