"""What a program treats as something that learns: an optimizer holds it, or its gradient is read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.made_inputs import made_input
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import made

FACTORIES = (
    *("randn", "rand", "zeros", "ones", "full", "empty", "eye", "normal", "linspace", "tensor"),
    *("zeros_like", "ones_like", "full_like", "randn_like", "rand_like", "empty_like"),
)
"""Functions of torch that take ``requires_grad``."""


@dataclass(frozen=True)
class Learner:
    """A tensor without the flag: ``frame`` is the statement that binds it to ``name``, or, without a name, the element
    of a list. ``value`` is what makes it, if that stands there alone. ``used``: where its gradient is read or the
    optimizer made that holds it (``held``)."""

    name: str
    frame: Frame
    value: Frame | None
    used: Frame
    held: bool


def meant_to_learn(program: Program) -> list[Learner]:
    """The tensors that are to learn and do not require gradients, in the order in which they are made."""
    found: dict[tuple[str, int, int], Learner] = {}
    for name, used, held in _asked(program):
        for own, frame, value in _made(program, name, used):
            learner = Learner(own, frame, value, used, held)
            if _may_lack_the_flag(program, own) and not _is_whole(value, program.sources):
                found.setdefault((frame.file, frame.line, frame.column if not own else hash(own)), learner)
    return sorted(found.values(), key=lambda one: one.frame.start)


def _asked(program: Program) -> Iterator[tuple[str, Frame, bool]]:
    """Names that an optimizer is given, and those whose gradient is read, with the place."""
    sources = program.sources
    for optimizer in program.optimizers:
        making = made(sources, optimizer.name)
        call = making.statement.value if making is not None else None
        given = bindings.argument(call, 0, "params") if isinstance(call, ast.Call) else None
        if making is not None and given is not None:
            at = making.frame(sources)
            elements = given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
            yield from ((name, at, True) for e in elements if (name := bindings.dotted(e)))
    for file in sources:
        for node in ast.walk(bindings.tree(sources, file) or ast.Module([], [])):
            if isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load):
                name = bindings.dotted(node.value)
                if name and name.rpartition(".")[2] not in ("autograd", "func", "torch"):
                    yield name, bindings.frame_of(sources, file, node), False


def _made(program: Program, name: str, used: Frame) -> Iterable[tuple[str, Frame, Frame | None]]:
    """Where what has this name is bound: the name, the statement, what makes it. Elements for a loop's variable."""
    sources = program.sources
    root = bindings.tree(sources, used.file)
    scope = (bindings.function_around(root, used.line) if root is not None else None) or root
    loops = [
        n
        for n in ast.walk(scope or ast.Module([], []))
        if isinstance(n, ast.For) and bindings.is_name(n.target, name) and n.lineno <= used.line
    ]
    if loops:
        iterated = loops[-1].iter
        if isinstance(iterated, ast.List | ast.Tuple):
            yield from _elements(program, iterated, used)
        elif bindings.dotted(iterated):
            yield from _made(program, bindings.dotted(iterated), used)
        return
    updated = _added_to(sources, used.file, name)
    found = [
        (f, v)
        for f, v in bindings.assignments(sources, used, name)
        if f.line not in updated and not {name, f"{name}.grad"} & {*bindings.names_in(v)}
    ]
    if not found:
        given = made_input(sources, program.raised, name)
        if given is not None and not given.given:
            yield given.name, given.frame, None
        return
    frame, value = found[0]
    if isinstance(value, ast.List | ast.Tuple) and _binds_alone(sources, frame):
        yield from _elements(program, value, frame)
        return
    yield name, frame, bindings.frame_of(sources, frame.file, value) if _binds_alone(sources, frame) else None


def _added_to(sources: SourceTexts, file: str, name: str) -> set[int]:
    """The lines of ``w -= …``, which bind nothing new."""
    nodes = ast.walk(bindings.tree(sources, file) or ast.Module([], []))
    return {n.lineno for n in nodes if isinstance(n, ast.AugAssign) and bindings.dotted(n.target) == name}


def _elements(program: Program, value: ast.List | ast.Tuple, at: Frame) -> Iterable[tuple[str, Frame, Frame | None]]:
    for element in value.elts:
        name = bindings.dotted(element)
        if name:
            yield from _made(program, name, at)
        elif isinstance(element, ast.Call):
            frame = bindings.frame_of(program.sources, at.file, element)
            yield "", frame, frame


def _binds_alone(sources: SourceTexts, frame: Frame) -> bool:
    """Whether the statement there gives its value to one name."""
    for node in ast.walk(bindings.tree(sources, frame.file) or ast.Module([], [])):
        if isinstance(node, ast.Assign) and node.lineno == frame.line:
            return not any(isinstance(t, ast.Tuple | ast.List) for t in node.targets)
    return False


def _may_lack_the_flag(program: Program, name: str) -> bool:
    """Whether no tensor or parameter of this name is known to require gradients."""
    known = [t.requires_grad for t in program.tensors if t.path == name] if name else []
    return not any(known) and not any(p.name == name for p in program.parameters if p.requires_grad)


def _is_whole(value: Frame | None, sources: SourceTexts) -> bool:
    """Whether what is made there are whole numbers, which cannot require gradients, or asks for gradients already."""
    node = expression_at(sources, value)
    return isinstance(node, ast.Call) and any(
        (k.arg == "dtype" and bindings.dotted(k.value).rpartition(".")[2] in ("long", "int", "int64", "bool"))
        or (k.arg == "requires_grad" and isinstance(k.value, ast.Constant) and bool(k.value.value))
        for k in node.keywords
    )


def expression_at(sources: SourceTexts, frame: Frame | None) -> ast.expr | None:
    """The expression that stands exactly there."""
    if frame is None:
        return None
    for node in ast.walk(bindings.tree(sources, frame.file) or ast.Module([], [])):
        if isinstance(node, ast.expr) and node.lineno == frame.line:
            at = bindings.frame_of(sources, frame.file, node)
            if at.extent == frame.extent:
                return node
    return None


def takes_the_flag(sources: SourceTexts, learner: Learner) -> bool:
    """Whether it is made by a function of torch's that takes ``requires_grad``, and by nothing behind that."""
    node = expression_at(sources, learner.value)
    name = bindings.dotted(node.func) if isinstance(node, ast.Call) else ""
    module, _, last = name.rpartition(".")
    return module == "torch" and last in FACTORIES
