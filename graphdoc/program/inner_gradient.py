"""An ``autograd.grad`` inside a forward pass: where its result goes, and whether it is an update."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import Enum

from graphdoc.evidence import Event, Frame, SourceTexts
from graphdoc.program.bindings import Flow, argument, call_at, flow, frame_of, names_in, scope_around, scope_at, tree
from graphdoc.program.spans import innermost_user
from graphdoc.source.module import each, given_to, has, is_method_call, is_within, walked
from graphdoc.source.paths import covers, is_attribute, is_set, key, pairs, without_subscripts
from graphdoc.source.scopes import run_over

_NUMBERS = frozenset({"item", "tolist", "numpy", "detach", "cpu", "size"})
_NUMBERS |= {"sign", "sgn", "round", "floor", "ceil", "trunc", "argmax", "argmin", "argsort"}
_NUMBERS |= {"gt", "ge", "lt", "le", "eq", "ne", "bool", "long", "int"}
"""What gives a number, or has a derivative of zero."""
_PLAIN = frozenset({"float", "int", "bool", "len", "print", "range", "isinstance"})
_ATTRIBUTES = frozenset({"data", "shape", "dtype", "device", "ndim"})
_REDUCING = frozenset({"norm", "sum", "mean", "max", "min", "abs", "vector_norm"})
_FILLING = frozenset({"append", "extend", "insert", "update"})
MOST_PASSES = 4
_CALLS = ast.Call | ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp

Marks = set[str]


class Entered(Enum):
    """How what an inner call gives goes into the loss of a later one."""

    AS_TENSOR = "as a tensor: the loss is to be differentiated through it"
    AS_NUMBER = "as a number alone: each way that the source shows detaches it or reads its value"
    SOMEHOW = "on some way, perhaps as a number or as the weight of a term"
    UNSEEN = "the source shows no way"


def entered(sources: SourceTexts, inner: Event, outer: Event | None, at: Frame | None) -> Entered:
    """How the result of ``inner`` goes into the loss that is differentiated at ``at``, by the call ``outer`` if the
    journal has it."""
    if outer is not None and _reaches_loss(sources, outer, inner):
        return Entered.AS_TENSOR
    ways = (
        [] if outer is None else [_reaches_loss(sources, outer, inner, weights=True, numbers=n) for n in (False, True)]
    )
    if ways == [False, True]:
        return Entered.AS_NUMBER
    frame = innermost_user(inner.stack)
    seen = frame is not None and at is not None and flow(sources, frame, at) is Flow.YES
    return Entered.SOMEHOW if seen else Entered.UNSEEN


def is_second_order(sources: SourceTexts, inner: Event, outer: Event) -> bool:
    """Whether the loss that ``outer`` differentiates is built on the result of ``inner`` as on a tensor that has no
    graph yet, and not by way of an inner step, which trains in the first order too."""
    return not (inner.create_graph or is_inner_step(sources, inner)) and _reaches_loss(sources, outer, inner)


def _reaches_loss(
    sources: SourceTexts, failing: Event, freeing: Event, *, weights: bool = False, numbers: bool = False
) -> bool:
    """Whether the result of the inner call enters the failing loss as more than a number or a weight of a term; with
    ``weights`` or ``numbers`` these count as well.

    The source is followed from the call through assignments and returns, along the frames that were under way.
    """
    calls = [f for f in reversed(freeing.stack) if f.user]
    ends = [f for f in failing.stack if f.user]
    parts: list[bool] = []
    for frame in calls:
        scope = scope_at(sources, frame)
        if frame.function.endswith("comp>") or "<genexpr>" in frame.function:
            continue
        flow = _Flow(sources, scope, frame, parts, weights, numbers)
        end = next((e for e in ends if e.in_function_of(frame)), None)
        if end is not None:
            return flow.read_on(end.line)
        parts = flow.returned()
        if not any(parts):
            return False
    return False


class _Flow:
    """The names of one function that depend, as tensors, on the value that is computed at a place in it.

    ``flows`` says whether a value enters an expression at all. Here it counts how: one that was read as a number
    (``item()``, ``shape``), or that weighs a term as a norm, does not enter, and each element of what is returned has
    its own answer, for the caller takes them apart again.
    """

    def __init__(
        self, sources: SourceTexts, scope: ast.AST, source: Frame, parts: list[bool], weights: bool, numbers: bool
    ) -> None:
        self.sources, self.source, self.parts, self.weights, self.numbers = sources, source, parts, weights, numbers
        self.marks: Marks = set()
        self.reduced: Marks = set()
        self.computed: Marks = set()
        self.statements = list(_own(scope))
        for _ in range(MOST_PASSES):  # what a loop carries round is found in a later pass
            before = len(self.marks)
            for statement in self.statements:
                self._take(statement)
            if len(self.marks) == before:
                break

    def read_on(self, line: int) -> bool:
        return any(
            self._reads(s.value)
            for s in self.statements
            if isinstance(s, ast.Expr | ast.Assign | ast.Return) and s.value is not None
            if covers(s, line)
        )

    def returned(self) -> list[bool]:
        """For each element of what is returned (one where it is no tuple) whether it depends on the value."""
        for s in self.statements:
            if isinstance(s, ast.Return) and s.value is not None:
                elements = s.value.elts if isinstance(s.value, ast.Tuple) else [s.value]
                return [self._reads(e) for e in elements]
        return []

    def _take(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.For):
            if self._reads(statement.iter):
                self._mark(statement.target)
        elif isinstance(statement, ast.Expr):
            call = statement.value
            if is_method_call(call, *_FILLING) and any(map(self._reads, call.args)):
                self._mark(call.func.value)
        elif isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                self._bind(target, statement.value)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        elements = target.elts if isinstance(target, ast.Tuple | ast.List) else None
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else None
        if elements is not None and values is not None and len(elements) == len(values):
            for one, its in zip(elements, values, strict=True):
                self._bind(one, its)
            return
        if has(value, ast.Call):
            self._mark(target, self.computed)
        if elements is not None and len(self.parts) == len(elements) and self._starts(value):
            for one, marked in zip(elements, self.parts, strict=True):
                if marked:
                    self._mark(one)
        elif self._reads(value):
            self._mark(target)
            if self._is_reduced(value):
                self._mark(target, self.reduced)

    def _mark(self, target: ast.expr, marks: Marks | None = None) -> None:
        for node in each(target, ast.Name, ast.Attribute):
            (self.marks if marks is None else marks).add(ast.unparse(node))
            if isinstance(target, ast.Attribute):
                break

    def _starts(self, value: ast.AST) -> bool:
        return any(self._is_source(n) for n in walked(value))

    def _is_source(self, node: ast.AST) -> bool:
        if not isinstance(node, _CALLS) or node.lineno != self.source.line:
            return False
        # `asked().detach()` begins where `asked()` does.
        made = frame_of(self.sources, self.source.file, node)
        return not self.source.column or (self.source.lies_in(made) and made.lies_in(self.source))

    def _reads(self, node: ast.AST) -> bool:
        """Whether an expression depends on the value as a tensor."""
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in self.marks:
            return True
        if self._is_source(node):
            return not self.parts or any(self.parts)
        return any(self._reads(part) for part in self._differentiated(node))

    def _differentiated(self, node: ast.AST) -> Iterable[ast.AST]:
        """The parts of an expression through which a gradient of it goes."""
        match node:
            case ast.Attribute(attr=name) if name in _ATTRIBUTES and not self.numbers:
                return ()
            case ast.Call(func=ast.Attribute(attr=name, value=tensor)) if name in _NUMBERS and not self.numbers:
                return (tensor,) if name == "cpu" else ()
            case ast.Call(func=ast.Name(id=name)) if name in _PLAIN and not self.numbers:
                return ()
            case ast.Compare() if not self.numbers:
                return ()
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right) if not self.weights:
                # A norm that scales something computed from the parameters is looked at, not differentiated.
                scales = self._scales(left, right) or self._scales(right, left)
                return () if scales else (left, right)
        return ast.iter_child_nodes(node)

    def _scales(self, weight: ast.expr, term: ast.expr) -> bool:
        known = self._is_reduced(weight) and self._is_computed(term)
        return known and self._reads(weight) and not self._reads(term)

    def _is_reduced(self, node: ast.AST) -> bool:
        given = {n for call in walked(node) if self._is_source(call) for n in walked(call)}
        parts = [n for n in walked(node) if n not in given]
        names = {ast.unparse(n) for n in parts if isinstance(n, ast.Name | ast.Attribute)}
        called = {ast.unparse(n.func).rsplit(".", 1)[-1] for n in parts if isinstance(n, ast.Call)}
        return bool(names & self.reduced or called & _REDUCING)

    def _is_computed(self, node: ast.AST) -> bool:
        return has(node, ast.Call) or any(ast.unparse(n) in self.computed for n in each(node, ast.Name, ast.Attribute))


def _own(scope: ast.AST) -> Iterator[ast.stmt]:
    """Statements of a function in order of the source, without those under ``no_grad`` and of inner functions."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(child, ast.With) and any("no_grad" in ast.unparse(i.context_expr) for i in child.items):
            continue
        if isinstance(child, ast.stmt):
            yield child
        yield from _own(child)


# Whether an inner gradient is an update: what it is the gradient of, less a part of it, goes on into the loss.

_ADDING = frozenset({"add", "sub"})
_ENTRIES = frozenset({"values", "items", "parameters", "named_parameters"})
_FLAGS = frozenset({"requires_grad", "requires_grad_"})
_ROUNDS = 2


def is_inner_step(sources: SourceTexts, inner: Event, of_data: bool = False) -> bool:
    """Whether the result of an ``autograd.grad`` is taken from, or added to, what was asked for: ``p - rate * g``.

    Such a step is of first order where the gradient is a number, and of second order where it has a graph: both train
    what stands in front of it. Followed along the frames that the call was made in, by the arguments and the results of
    their calls. With ``of_data`` one of data that were asked for counts as well.
    """
    frames = [f for f in reversed(inner.stack) if f.user]
    for frame in frames:
        stepped, handed = _steps(sources, frame, frame is frames[0], of_data)
        if stepped or not handed:
            return stepped
    return False


def _steps(sources: SourceTexts, frame: Frame, own: bool, of_data: bool) -> tuple[bool, bool]:
    """Whether this function makes such a step, and whether what is asked for was handed to it: then its caller may."""
    root, call = tree(sources, frame.file), call_at(sources, frame)
    if call is None:
        return False, True
    scope = scope_around(root, frame.line)
    asked = [argument(call, 1, "inputs")] if own else given_to(call)
    inputs = {n for a in asked for n in _names(a)}
    gradients, data = _named(scope, call), _data(scope)
    for _ in range(_ROUNDS):
        for target, value in _bound(scope):
            goes_on = key(target) in inputs - data and not _reads(value, gradients)
            inputs |= _names(value) if goes_on else set()
            if isinstance(target, ast.Name):
                gradients |= {target.id} if _reads(value, gradients) and target.id not in inputs else set()
        for target, value in _elements(scope):
            read = _names(value)
            (gradients if read & gradients else inputs if read & inputs else set()).update(_names(target))
    started = inputs - gradients - (set() if of_data else data)
    own_names = {a.arg for a in each(scope, ast.arg)} if isinstance(scope, ast.FunctionDef) else started
    handed = any(name.partition(".")[0] in own_names for name in started)
    return any(_is_step(node, started, gradients, call) for node in walked(scope)), handed


def _data(scope: ast.AST) -> set[str]:
    """What was made to require a gradient for the sake of the derivative alone: nothing behind it is trained."""
    out: set[str] = set()
    for node in walked(scope):
        if is_method_call(node, "requires_grad_"):
            out |= _names(node.func.value)
        if isinstance(node, ast.Assign):
            made = list(each(node.value, ast.Attribute, ast.keyword))
            flagged = any((n.attr if isinstance(n, ast.Attribute) else n.arg or "") in _FLAGS for n in made)
            ends = [t for target in node.targets for t in each(target, ast.Attribute, ast.Name)]
            out |= {key(t) for t in ends if flagged and is_set(t)}
            out |= {key(t.value) for t in ends if is_attribute(t, *_FLAGS)}
    return out


def _named(scope: ast.AST, call: ast.Call) -> set[str]:
    """The names that a call's result gets."""
    values = ((t, v) for t, v in _bound(scope) if is_within(call, v))
    return {name for target, _ in values for name in _names(target)}


def _bound(scope: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in each(scope, ast.Assign):
        yield from pairs(node)


def _elements(scope: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What loops and comprehensions bind, with what each of it runs over."""
    for node in each(scope, ast.For, ast.comprehension):
        for target, value in run_over(node.target, node.iter):
            parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            yield (parts[-1] if is_method_call(value, "items") else target), value


def _is_step(node: ast.AST, inputs: set[str], gradients: set[str], call: ast.Call) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sides = [(node.left, node.right), (node.right, node.left)][: 1 + isinstance(node.op, ast.Add)]
    elif is_method_call(node) and node.func.attr in _ADDING and node.args:
        sides = [(node.func.value, node.args[-1]), (node.args[0], node.args[-1])]
    else:
        return False
    return any(
        _is_one_of(start, inputs) and (_reads(change, gradients) or is_within(call, change)) for start, change in sides
    )


def _is_one_of(node: ast.expr, names: set[str]) -> bool:
    node = without_subscripts(node)
    return key(node) in names if isinstance(node, ast.Name | ast.Attribute) else False


def _names(node: ast.AST | None) -> set[str]:
    """What an expression reads; of a call that gives the entries of something (``params.values()``), that."""
    return {head if tail in _ENTRIES else name for name in names_in(node) for head, _, tail in [name.rpartition(".")]}


def _reads(node: ast.expr, names: set[str]) -> bool:
    return bool(names & _names(node))
