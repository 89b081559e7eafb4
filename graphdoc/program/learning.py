"""What is meant to learn: what an optimizer holds or whose gradient is read, what is frozen, and what is unfrozen."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from graphdoc.evidence import Event, Frame, Optimizer, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import expression_at
from graphdoc.program.calls_in_order import site
from graphdoc.program.gathered_parameters import asks_for_gradient, made_input, module_of
from graphdoc.program.gradient_reads import gradients_in
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import Made, made
from graphdoc.program.parameter_paths import within
from graphdoc.program.spans import conditions_on, innermost_user
from graphdoc.program.tracker import behind, run_over, uncopied
from graphdoc.program.written_out import in_one_piece
from graphdoc.source import paths
from graphdoc.source.module import Function, each, is_method_call, keyword, receiver_of, walked
from graphdoc.source.scopes import function_of, own_nodes, parameters

# What a program treats as something that learns: an optimizer holds it, or its gradient is read.

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
    asked = ((made, used, held) for name, used, held in _asked(program) for made in _made(program, name, used))
    for (own, frame, value), used, held in asked:
        if _may_lack_the_flag(program, own) and not _is_whole(value, program.sources):
            key = (frame.file, frame.line, frame.column if not own else hash(own))
            found.setdefault(key, Learner(own, frame, value, used, held))
    return sorted(found.values(), key=lambda one: one.frame.start)


def _asked(program: Program) -> Iterator[tuple[str, Frame, bool]]:
    """Names that an optimizer is given, and those whose gradient is read, with the place."""
    sources = program.sources
    for optimizer in program.optimizers:
        making = made(sources, optimizer)
        given = making.given if making is not None else None
        parts = paths.elements(given) or ([given] if given is not None else [])
        yield from ((name, making.frame(sources), True) for e in parts if making and (name := paths.path_of(e)))
    for file in sources:
        read = (n for n in gradients_in(bindings.tree(sources, file)) if paths.is_read(n))
        yield from (
            (name, bindings.frame_of(sources, file, n), False) for n in read if (name := paths.path_of(n.value))
        )


def _made(program: Program, name: str, used: Frame) -> Iterable[tuple[str, Frame, Frame | None]]:
    """Where what has this name is bound: the name, the statement, what makes it. Elements for a loop's variable."""
    sources = program.sources
    scope = bindings.scope_at(sources, used)
    loops = [n for n in each(scope, ast.For) if paths.is_name(n.target, name) and n.lineno <= used.line]
    if loops:
        iterated = loops[-1].iter
        if isinstance(iterated, ast.List | ast.Tuple):
            yield from _elements(program, iterated, used)
        elif paths.path_of(iterated):
            yield from _made(program, paths.path_of(iterated), used)
        return
    added = (n for n in each(bindings.tree(sources, used.file), ast.AugAssign) if paths.path_of(n.target) == name)
    updated = {n.lineno for n in added}  # by ``w -= …``, which binds nothing new
    bound = [(f, v) for f, v in bindings.assignments(sources, used, name) if f.line not in updated]
    found = [(f, v) for f, v in bound if not {name, f"{name}.grad"} & {*bindings.names_in(v)}]
    given = made_input(program.evidence, name) if not found else None
    if given is not None and not given.given:
        yield given.name, given.frame, None
    for frame, value in found[:1]:
        alone = _binds_alone(sources, frame)
        if alone and isinstance(value, ast.List | ast.Tuple):
            yield from _elements(program, value, frame)
        else:
            yield name, frame, bindings.frame_of(sources, frame.file, value) if alone else None


def _elements(program: Program, value: ast.List | ast.Tuple, at: Frame) -> Iterable[tuple[str, Frame, Frame | None]]:
    for element in value.elts:
        name = paths.path_of(element)
        if name:
            yield from _made(program, name, at)
        elif isinstance(element, ast.Call):
            frame = bindings.frame_of(program.sources, at.file, element)
            yield "", frame, frame


def _binds_alone(sources: SourceTexts, frame: Frame) -> bool:
    """Whether the statement there gives its value to one name."""
    node = bindings.statement_at(sources, frame)
    return isinstance(node, ast.Assign) and not any(isinstance(t, ast.Tuple | ast.List) for t in node.targets)


def _may_lack_the_flag(program: Program, name: str) -> bool:
    """Whether no tensor or parameter of this name is known to require gradients."""
    known = [t.requires_grad for t in program.tensors if t.path == name] if name else []
    return not any(known) and not any(p.name == name for p in program.parameters if p.requires_grad)


def _is_whole(value: Frame | None, sources: SourceTexts) -> bool:
    """Whether what is made there are whole numbers, which cannot require gradients, or asks for gradients already."""
    node = expression_at(sources, value)
    kind, flag = (keyword(node, k) if isinstance(node, ast.Call) else None for k in ("dtype", "requires_grad"))
    return paths.last_word(kind) in ("long", "int", "int64", "bool") or paths.is_constant(flag, True)


def takes_the_flag(sources: SourceTexts, learner: Learner) -> bool:
    """Whether it is made by a function of torch's that takes ``requires_grad``, and by nothing behind that."""
    node = expression_at(sources, learner.value)
    of, _, name = function_of(bindings.tree_at(sources, learner.value), node).rpartition(".")
    return of == "torch" and name in FACTORIES


# What freezes parameters: modules whose ``train()`` does it anew, statements that switch the flag, filled tables.


@dataclass(frozen=True)
class TrainOverride:
    """A class whose ``train`` freezes: ``statement`` in it, and the last statement of its ``__init__`` if it has one.

    ``call`` is the statement's source where it is a call of a method without arguments, else empty; ``frozen_once``
    tells that ``__init__`` does the same.
    """

    file: str
    cls: ast.ClassDef
    statement: ast.stmt
    call: str
    init_end: ast.stmt | None
    frozen_once: bool = False

    def frame(self, sources: SourceTexts, node: ast.AST) -> Frame:
        """A place in its file."""
        return bindings.frame_of(sources, self.file, node)


def freezing_in_train(sources: SourceTexts) -> TrainOverride | None:
    """The one class of the program whose ``train`` sets ``requires_grad`` to False; None for none or several."""
    return paths.only([o for file in sources for o in _in_file(sources, file)])


def unfreezing(sources: SourceTexts, to: bool = True) -> list[Frame]:
    """The statements that switch ``requires_grad`` on; or off."""
    every = bindings.everywhere(sources, ast.stmt)
    return [bindings.frame_of(sources, file, node) for file, node in every if switches(node) is to]


def switched_at_a_count(
    sources: SourceTexts, numbers: Mapping[str, int], to: bool = True
) -> tuple[Frame, Frame] | None:
    """The one condition, that something which counts has certain values, which it is above by these numbers of the
    run, on which the program switches ``requires_grad`` so, and the statement; None for none or several."""
    found = [
        (bindings.frame_of(sources, at.file, test), at)
        for at in unfreezing(sources, to)
        for test, wanted in conditions_on(sources, at)
        if any(_is_over(sources, n, wanted, numbers) for n in each(test, ast.Compare))
    ]
    return paths.only(found)


def _is_over(sources: SourceTexts, node: ast.Compare, wanted: bool, numbers: Mapping[str, int]) -> bool:
    """``epoch == start`` or ``epoch in (3, start)``, or the opposite where that is not to hold, of what loops or
    additions have counted further up."""
    if not isinstance(node.ops[0], ast.Eq | ast.In if wanted else ast.NotEq | ast.NotIn):
        return False
    counts = bindings.everywhere(sources, ast.For, ast.AugAssign)
    counted = {paths.last_word(t) for _, n in counts for t in paths.targets_of(n)} - {""}
    first, second = node.left, node.comparators[0]
    if paths.last_word(first) not in counted and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        first, second = second, first
    now, *values = (
        n.value if isinstance(n, ast.Constant) else numbers.get(bindings.text_of(n))
        for n in (first, *(paths.elements(second) or [second]))
    )
    passed = isinstance(now, int) and all(isinstance(v, int) and v < now for v in values)
    return passed and paths.last_word(first) in counted


def flag_set(node: ast.AST) -> tuple[ast.expr | None, bool | None]:
    """What a simple statement, or a call, sets ``requires_grad`` of, and to what; None for what is no plain value."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    if isinstance(node, ast.Assign) and paths.is_attribute(target, "requires_grad"):
        return target.value, bool(node.value.value) if isinstance(node.value, ast.Constant) else None
    call = node.value if isinstance(node, ast.Expr) else node
    if not is_method_call(call, "requires_grad_"):
        return None, None
    given = bindings.argument(call, 0, "requires_grad") or ast.Constant(True)
    return call.func.value, bool(given.value) if isinstance(given, ast.Constant) else None


def switches(node: ast.AST) -> bool | None:
    """What a simple statement, or a call, sets ``requires_grad`` to; None where it does not, or to no plain value."""
    return flag_set(node)[1]


def switched(statement: ast.stmt, to: bool) -> str:
    """``model.head`` of ``model.head.requires_grad_(True)`` and of the loop that does it for each of its parameters;
    empty where the statement does not switch ``requires_grad`` ``to`` this."""
    if isinstance(statement, ast.For) and is_method_call(statement.iter, "parameters", "named_parameters"):
        names = paths.plain_names(statement.target)
        each = any(bindings.text_of(of) in names and value is to for of, value in map(flag_set, statement.body))
        return bindings.text_of(statement.iter.func.value) if each else ""
    owner, value = flag_set(statement)
    return bindings.text_of(owner) if value is to else ""


def frozen_behind(sources: SourceTexts, at: Frame, name: str) -> bool:
    """Whether the function of ``at`` switches this tensor's flag off, or detaches it in place, on a later line.

    What is frozen so soon was never to learn: a write before it fills a table.
    """
    later = (n for n in own_nodes(bindings.scope_at(sources, at)) if isinstance(n, ast.stmt) and n.lineno > at.line)
    return bool(name) and any(_frozen(n) == name for n in later)


def parameter_behind(sources: SourceTexts, at: Frame, name: str) -> bool:
    """Whether the function of ``at`` makes a parameter of this tensor on a later line: ``nn.Parameter(name.view(-1))``.

    A parameter is a leaf of its own, to which no gradient of the write can come: what is written are its numbers.
    """
    calls = (n for n in own_nodes(bindings.scope_at(sources, at)) if isinstance(n, ast.Call) and n.lineno > at.line)
    given = (bindings.argument(n, 0, "data") for n in calls if paths.called(n) == "Parameter")
    return bool(name) and any(bindings.text_of(part) == name for a in given for part in each(a, ast.expr))


def writes_on(sources: SourceTexts, at: Frame, name: str) -> Frame | None:
    """The last of the statements that follow the one at ``at`` in its block and write into the same tensor; None for
    none."""
    statement = bindings.statement_at(sources, at)
    block, index = bindings.source_at(sources, at).node_block(statement) if statement is not None else ([], 0)
    run = list(takewhile(lambda s: _writes_into(s, name), block[index + 1 :]))
    return bindings.frame_of(sources, at, run[-1]) if run else None


def _writes_into(statement: ast.stmt, name: str) -> bool:
    """``name[0] = …``, ``name[:, 1] += …``, ``name += …``: an entry or the tensor itself is written."""
    if not isinstance(statement, ast.Assign | ast.AugAssign):
        return False
    targets = paths.targets_of(statement)
    entries = isinstance(statement, ast.AugAssign) or all(isinstance(t, ast.Subscript) for t in targets)
    return entries and all(bindings.text_of(paths.without_subscripts(t)) == name for t in targets)


def _frozen(node: ast.stmt) -> str:
    """``x`` of ``x.requires_grad = False``, ``x.requires_grad_(False)`` and ``x.detach_()``; empty for the rest."""
    owner, value = flag_set(node)
    call = paths.bare_call(node)
    cut = is_method_call(call, "detach_") and not call.args
    return (
        bindings.text_of(owner)
        if value is False
        else bindings.text_of(receiver_of(call))
        if cut and call is not None
        else ""
    )


def _in_file(sources: SourceTexts, file: str) -> Iterator[TrainOverride]:
    for cls in each(in_one_piece(bindings.tree(sources, file)), ast.ClassDef):
        methods = bindings.methods_of(cls)
        if "train" not in methods:
            continue
        for statement in each(methods["train"], ast.stmt):
            call = paths.bare_call(statement)
            own = methods.get(paths.called(call)) if call and bindings.text_of(call).startswith("self.") else None
            if call is not None and own is not None and any(switches(node) is False for node in walked(own)):
                plain = ast.unparse(statement) if not call.args else ""
                body: list[ast.stmt] = getattr(methods.get("__init__"), "body", [])
                once = bool(plain) and plain in map(ast.unparse, body)
                yield TrainOverride(file, cls, statement, plain, next(reversed(body), None), once)
                break
            if switches(statement) is False:
                yield TrainOverride(file, cls, statement, "", None)
                break


# Parameters that the failing loss trained before, frozen since for another loss and not let go: by which statement.


@dataclass(frozen=True)
class KeptFrozen:
    """``earlier`` is the last call of this place, which had reached all of ``names``; they are frozen now. None where
    the failing call is the first of its place: the ``names`` are then all that the optimizer holds which steps for it.
    """

    names: frozenset[str]
    earlier: Event | None
    failing: Event
    between: tuple[Event, ...]


@dataclass(frozen=True)
class Freezing:
    """A statement that freezes, and the one line that does the opposite."""

    at: Frame
    opposite: str


def kept_frozen(program: Program) -> KeptFrozen | None:
    """What the failing call reached the last time, where none of it requires gradients any more; None where some does.

    For the first call of its place, behind one for another loss: what the optimizers that step for it hold, where all
    of that is frozen.
    """
    events = program.evidence.events
    failing = program.failing or next((e for e in reversed(events) if e.kind == "backward"), None)
    if failing is None or failing.reaches or any(e.kind == "backward" for e in events if e.index > failing.index):
        return None
    if program.raised_at != innermost_user(failing.stack):
        return None
    mine = site(failing.stack)
    before = [e for e in events if e.index < failing.index and site(e.stack) == mine and not e.failed]
    works = program.journal.works_for(failing) if not before else frozenset()
    names = frozenset(program.journal.reaches(before[-1])) if before else program.owners.parameters(works)
    frozen = {p.name for p in program.parameters if not p.requires_grad}
    if not names or not names <= frozen:
        return None
    first = before[-1].index if before else -1
    between = tuple(e for e in events if first < e.index < failing.index)
    if not before and not any(e.kind == "backward" for e in between):
        return None  # no other loss for which they could have been frozen
    return KeptFrozen(frozenset(names), before[-1] if before else None, failing, between)


def freezing_of(sources: SourceTexts, names: Collection[str], every: list[str]) -> Iterator[Freezing]:
    """The statements that freeze what has these names, of ``every`` parameter's, themselves or by a function of the
    program that is told to."""
    setters = {n.name for _, n in bindings.everywhere(sources) if isinstance(n, Function) and _flag_of(n)}
    for file, node in bindings.everywhere(sources, ast.stmt):
        what, opposite = _undone(node, setters)
        if any(within(path, every).keys() & names for path in what):
            yield Freezing(bindings.frame_of(sources, file, node), opposite)


def _undone(statement: ast.stmt, setters: Collection[str]) -> tuple[list[str], str]:
    """The names of what a statement freezes, by itself or by one of the functions ``setters``, and the line that does
    the opposite; empty where it freezes nothing."""
    if owner := switched(statement, False):
        flag = ".requires_grad = True" if isinstance(statement, ast.Assign) else ".requires_grad_(True)"
        return [owner], owner + flag
    call = paths.bare_call(statement)
    if call is None or paths.last_word(call.func) not in setters:
        return [], ""
    other = ast.parse(ast.unparse(statement))
    flags = [n for n in each(other, ast.Constant) if n.value is False]
    for flag_given in flags:
        flag_given.value = True
    return [n for a in call.args for n in bindings.names_in(a)] if flags else [], ast.unparse(other)


def _flag_of(function: Function) -> bool:
    """Whether a function sets ``requires_grad`` to what it is given."""
    assigned = [n for n in each(function, ast.Assign) if any(paths.is_attribute(t, "requires_grad") for t in n.targets)]
    called = [n for n in each(function, ast.Call) if paths.last_word(n.func) == "requires_grad_"]
    values = [*(n.value for n in assigned), *(a for n in called for a in n.args)]
    return any(isinstance(v, ast.Name) and v.id in parameters(function) for v in values)


def released_behind(sources: SourceTexts, freezing: Freezing, between: Sequence[Event]) -> Frame | None:
    """The last statement of the freezing one's function, behind it, below which one of these calls was made: whatever
    the freezing was for is done there. None where none was."""
    around = bindings.function_at(sources, freezing.at)
    last = max(freezing.at.line, freezing.at.end_line)
    users = [f for e in between for f in e.stack if f.user and f.file == freezing.at.file and f.line > last]
    here = [f for f in users if (paths.covers(around, f.line) if around is not None else f.function == "<module>")]
    return max(here, key=lambda f: (f.line, f.column), default=None)


# Whether parameters were certainly switched on before a step, and nothing but one class's ``train()`` can have
# switched them off again.


@dataclass(frozen=True)
class Unfrozen:
    """A statement that has switched on what ``owner`` holds (``model.backbone``), and the call of ``train()`` behind
    it."""

    owner: str
    at: Frame
    train: Frame

    def has(self, name: str) -> bool:
        """Whether a parameter of this name is among them."""
        owner = re.sub(r"\[(\d+)\]", r".\1", self.owner)  # `net[0].stem` has `net.0.stem.weight`
        return name == owner or name.startswith(owner + ".")


_DEFINITION = Function | ast.ClassDef
"""What stands in such a statement runs when it is called."""


def unfrozen_before(sources: SourceTexts, stack: list[Frame], override: TrainOverride) -> Unfrozen | None:
    """What a statement that no branch leaves out has switched on before the step with this stack."""
    train: Frame | None = None
    for frame in (f for f in reversed(stack) if f.user):
        around = bindings.scope_around(in_one_piece(bindings.tree(sources, frame.file)), frame.line)
        passed = list(_passed(around.body, frame.line))
        on = max((n for n, s in enumerate(passed) if switched(s, True)), default=-1)
        trains = [s for s in passed[on + 1 :] if _is_train(s)]
        train = bindings.frame_of(sources, frame.file, trains[-1]) if trains else train
        if on < 0:
            continue
        known = [
            override.frame(sources, override.cls),
            *(bindings.frame_of(sources, frame.file, s) for s in passed[: on + 1] if not isinstance(s, _DEFINITION)),
        ]
        if train is None or any(not any(off.on_lines_of(k) for k in known) for off in _switching_off(sources)):
            return None
        return Unfrozen(switched(passed[on], True), bindings.frame_of(sources, frame.file, passed[on]), train)
    return None


def _passed(block: list[ast.stmt], line: int) -> Iterator[ast.stmt]:
    """The statements that have run before this line is reached, in each block on the way to it."""
    for statement in block:
        if not paths.covers(statement, line):
            yield statement
            continue
        for inner in paths.blocks_of(statement):
            if inner[0].lineno <= line <= (inner[-1].end_lineno or inner[-1].lineno):
                yield from _passed(inner, line)
        return


def _is_train(statement: ast.stmt) -> bool:
    """``model.train()`` or ``model.train(True)``."""
    call = paths.bare_call(statement)
    mode = bindings.argument(call, 0, "mode")
    return is_method_call(call, "train") and (mode is None or paths.is_constant(mode, True))


def _switching_off(sources: SourceTexts) -> Iterator[Frame]:
    """Every statement that may switch ``requires_grad`` off: what is no plain True may be False."""
    for file, node in bindings.everywhere(sources, ast.Assign, ast.Expr):
        call = paths.bare_call(node)
        named = any(paths.is_attribute(t, "requires_grad") for t in getattr(node, "targets", ()))
        named = named or (call is not None and paths.is_attribute(call.func, "requires_grad_", "setattr"))
        if named and switches(node) is not True:
            yield bindings.frame_of(sources, file, node)


# What is unfrozen behind an optimizer that was made of what required gradients then.


def unfrozen_behind(
    sources: SourceTexts, optimizer: Optimizer | None, parameters: list[str], late: bool
) -> tuple[Frame, Frame] | None:
    """Where the optimizer was given only what required gradients, and where parameters that had been frozen are
    unfrozen: below it, in the same function, or, where the run has seen that these were frozen at first (``late``), in
    the one statement of the program that unfreezes. None where that is not how the source reads."""
    taken, on = _chosen_by_flag(sources, optimizer), unfreezing(sources)
    if taken is None:
        return None
    scope = bindings.scope_at(sources, taken)
    below = [f for f in on if f.file == taken.file and f.line > taken.line and bindings.scope_at(sources, f) is scope]
    statements = ((f, bindings.statement_at(sources, f)) for f in below)
    own = [f for f, s in statements if s is not None and _is_of_parameters(scope, s, parameters)]
    above = (n for n in each(bindings.tree_at(sources, taken), ast.stmt, ast.Call) if n.lineno < taken.line)
    before = any(switches(n) is False for n in above)
    found = (own[0] if own and before else None) or (paths.only(on) if late else None)
    return (taken, found) if found is not None else None


def _chosen_by_flag(sources: SourceTexts, optimizer: Optimizer | None) -> Frame | None:
    """The expression that chose what the optimizer was given by its flag; None for none."""
    stack = optimizer.stack if optimizer is not None else []
    making = made(sources, optimizer)
    at = innermost_user(stack) or (making.frame(sources) if making else None)
    given = bindings.argument(bindings.call_at(sources, at), 0, "params") or (making.given if making else None)
    if given is None or at is None:
        return None
    values = [(at.file, given), *((b.stack[-1].file, b.value) for b in behind(sources, stack or [at], given))]
    names = {name for _, value in values for name in bindings.names_in(value)}
    values += [(f.file, v) for name in names for f, v in bindings.assignments(sources, at, name)]
    conditions = each(bindings.scope_at(sources, at), ast.If)
    values += [(at.file, n.test) for n in conditions if any(_fills(c, names) for c in each(n, ast.Call))]
    asking = ((file, v) for file, v in values if any(n.attr == "requires_grad" for n in each(v, ast.Attribute)))
    return next((bindings.frame_of(sources, file, v) for file, v in asking), None)


def _fills(call: ast.Call, names: Collection[str]) -> bool:
    return is_method_call(call, "append", "extend") and bindings.text_of(receiver_of(call)) in names


def taken_by_flag(sources: SourceTexts, making: Made) -> str:
    """The module of which an optimizer was given all parameters that required gradients; empty where a further
    condition chooses among them, or the program adds others later on."""
    given = making.given
    bound = behind(sources, [making.frame(sources)], given)
    given = uncopied(bound[-1].value) if bound else uncopied(given) if given is not None else None
    if isinstance(given, ast.ListComp):
        given = ast.GeneratorExp(given.elt, given.generators)
    module, tests = module_of(given) if given is not None else ("", [])
    adds = any(is_method_call(n, "add_param_group") for _, n in bindings.everywhere(sources, ast.Call))
    return module if len(tests) == 1 and asks_for_gradient(tests[0]) and not adds else ""


def _is_of_parameters(scope: ast.AST, node: ast.stmt, parameters: list[str]) -> bool:
    """Whether a loop over ``parameters()`` switches each of them on, or a call a whole module."""
    whose = bindings.text_of(flag_set(node)[0])
    loops = (n for n in each(scope, ast.For) if node in n.body and whose in bindings.names_in(n.target))
    return any(name.startswith(whose + ".") for name in parameters) or any(_lists_parameters(n.iter) for n in loops)


def runs_over_parameters(sources: SourceTexts, file: str, owner: ast.expr) -> bool:
    """Whether this is the variable of a loop, a comprehension or a filter over the parameters of a module."""
    return any(map(_lists_parameters, run_over(sources, file, owner)))


def _lists_parameters(node: ast.expr) -> bool:
    return any(is_method_call(n, "parameters", "named_parameters") for n in each(node, ast.Call))
