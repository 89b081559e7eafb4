"""What lets a computation be recorded: the switch around it, what connects it, the flag of what is to learn."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Cut, Folded, Frame, Optimizer, Raised, SourceTexts
from graphdoc.finding import LIST, Finding, Remedy, edit_at, remedy_at, together
from graphdoc.program import bindings, name_usage
from graphdoc.program.asked_gradients import Beside, FlaggedLate, Reason, TakenOut, step_between
from graphdoc.program.carried_names import Carried
from graphdoc.program.container_entries import statements
from graphdoc.program.custom_functions import Idle, runs_backward
from graphdoc.program.cuts import drawn_within, is_whole_term, left_cut, mode_under_way, uses_of_cut
from graphdoc.program.learning import Learner, takes_the_flag
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import Made, made
from graphdoc.program.parameter_paths import ITERATORS, within
from graphdoc.program.proof import Proof
from graphdoc.program.spans import alike, frames, innermost, innermost_user, place, span, where
from graphdoc.source import paths
from graphdoc.source.module import Function, each, is_method_call, walked
from graphdoc.source.paths import is_attribute, is_constant, last_word, only
from graphdoc.source.places import Place
from graphdoc.source.scopes import imported, own_nodes
from graphdoc.story.missing_graph import named, recording_was_on, without_graph
from graphdoc.story.wording import as_called, folded, listing

# What no trial can decide of a fix that gives a value its graph back, or takes it away, as the end of a sentence.


def open_at_cut(program: Program, cut: Cut) -> str:
    """That the loss takes up the value at several places, each of which then trains what lies behind it; or that a
    part of it is a draw. Empty where neither is so."""
    uses = uses_of_cut(program, cut) if cut.behind else []
    at = innermost(cut.stack)
    if not uses:
        around = bindings.function_at(program.sources, at)
        called = open_at_calls(program.sources, cut.stack, at.file, around) if at is not None and around else ""
        return called or open_at_draw(program.sources, at)
    lines = listing(map(where, uses), len(uses))
    return f"the loss takes the value up at {lines}: which of these is to train {folded(cut.behind)}, no run tells"


def open_at_others(program: Program, mended: Sequence[Cut]) -> str:
    """That the loss keeps being cut at other places, of what it may have been meant to train there; or nothing."""
    places = list(dict.fromkeys(where(f) for c in left_cut(program, mended) if (f := innermost(c.stack)) is not None))
    if not places:
        return ""
    verb = "keeps" if len(places) == 1 else "keep"
    told = listing(places, 3)
    return f"{told} {verb} the loss from training what it was computed from, too: whether that is meant, no run tells"


def open_at_calls(sources: SourceTexts, stack: Sequence[Frame], file: str, function: ast.stmt) -> str:
    """That this function is called at several places, by the one that called it or elsewhere: some may be meant to have
    no graph, as a target is, or turn what they get into an array. Empty where it is not. ``stack`` is that of an
    operation inside of it."""
    own = [f for f in stack if f.user]
    inside = next((i for i, f in enumerate(own) if f.file == file and paths.covers(function, f.line)), 0)
    caller = own[inside - 1] if inside else None
    scope = bindings.scope_at(sources, caller)
    if caller is None:
        return ""
    calls = [n for n in each(scope, ast.Call) if paths.covers(n, caller.line)]
    here = next((c for c in calls if bindings.frame_of(sources, caller.file, c).extent == caller.extent), None)
    if here is None:
        return ""
    name = bindings.text_of(here.func)
    same = sum(bindings.text_of(n.func) == name for n in each(scope, ast.Call))
    if same > 1:
        return f"`{name}` is called at {same} places there, and which of them is to train, no run tells"
    every = _calls_of(sources, getattr(function, "name", ""))
    told = f"`{name}` is called at {every} places of the program, and which of them is to train, no run tells"
    return told if every > 1 else ""


def _calls_of(sources: SourceTexts, name: str) -> int:
    """How often the program calls the one function of this name, but where it records nothing in any case; 0 where
    several have it, or PyTorch calls it."""
    if name == "forward" or name.startswith("__"):
        return 0
    nodes = [n for _, n in bindings.everywhere(sources)]
    own = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == name]
    if len(own) != 1:
        return 0
    named = ((file, n) for file, n in bindings.everywhere(sources, ast.Call) if paths.last_word(n.func) == name)
    calls = [(f, n.func) for f, n in named if not bindings.contexts_around(sources, [bindings.frame_of(sources, f, n)])]
    if any(own[0] in n.body for n in nodes if isinstance(n, ast.ClassDef)):
        return len(calls)
    # A function's name may be that of a method of something else: `train(loader)` and `net.train()`.
    return sum(
        paths.is_name(f, name) or bindings.text_of(f).partition(".")[0] in imported(bindings.tree(sources, file))
        for file, f in calls
    )


def open_at_loop(again: Sequence[Frame]) -> str:
    """That a value is made anew by a loop within one pass (the first of its places is told), which a longer pass runs
    through more often: what it hands on to itself is cut off, too. Empty where there is no such place."""
    if not again:
        return ""
    return (
        f"{where(again[0])} is a loop within one pass: whether it learns from one round to the next there, no run tells"
    )


def open_at_draw(sources: SourceTexts, frame: Frame | None) -> str:
    """That the expression at a place holds a draw, whatever else of it is recorded; empty where it holds none."""
    found = drawn_within(sources, frame) if frame is not None else None
    if found is None:
        return ""
    return f"`{found[0]}` is drawn by `{found[1]}`, which has no derivative: nothing is learnt through the draw"


def open_at_terms(folded: Folded | None, frames: list[Frame]) -> str:
    """That a term of the loss is made of the value alone, and trains nothing where that is a constant. ``frames`` are
    the places at which the loss takes it up. Empty where there is no such term."""
    terms = list(dict.fromkeys(where(f) for f in frames if is_whole_term(folded, f)))
    if not terms:
        return ""
    verb = "trains" if len(terms) == 1 else "train"
    it = "it is" if len(terms) == 1 else "they are"
    return f"what {listing(terms)} adds to the loss then {verb} nothing: what {it} to train, no run tells"


def taking(carries: list[Carried]) -> list[Frame]:
    """The places at which the failing graph takes up what these edges lead to."""
    return [f for c in carries for f in c.using[:1]]


# What connects an output with the input whose gradient is asked for, or answers that there is no connection.


def of_reason(sources: SourceTexts, frame: Frame | None, reason: Reason) -> tuple[Remedy, ...]:
    """Where the run has shown why no way leads to the input."""
    match reason:
        case Beside(made):
            if frame is None or frame.line != made.line:
                return ()
            note = "The same elements are then taken from its gradient; no other gradient changes."
            title = "Ask for the gradient of the tensor that it is taken from"
            return remedy_at(frame, "grad_of_whole", title, "safe", note)
        case TakenOut(cut, at):
            if cut.reason not in ("detach", "conversion"):
                return ()
            note = "Gradients then flow into it, and into everything that it was computed from."
            found = remedy_at(at, "drop_call", f"Keep the graph: drop {as_called(cut.op)}", "unsafe", note)
            return tuple(replace(r, open=open_at_draw(sources, at)) for r in found)
        case FlaggedLate(flagged, taken):
            note = "The output keeps its value, and gradients flow back to the input."
            title = "Let it require gradients before it goes into the output"
            return remedy_at(flagged, "move_statement", title, "safe", note, before=place(taken))


def connecting(program: Program, idle: Idle | None, cut: list[Frame]) -> tuple[Remedy, ...]:
    """Let the output depend on the input: on an argument that is not used, or on values that were written."""
    if not cut:
        return _pass_it_on(program.sources, idle) or _use_it(program, idle)
    note = "`torch.func.functional_call(module, values, inputs)` runs a module with values that have a graph."
    return (Remedy("use_values", "Compute the output from the new values themselves", "display", note),)


def zeros(frame: Frame | None, told: str) -> tuple[Remedy, ...]:
    """A derivative of zero; ``told`` is the input in words."""
    title = "Ask for zeros where the output does not depend on an input"
    note = f"The derivative with respect to {told} is zero then; had it been left out by mistake, nothing would tell."
    return remedy_at(frame, "set_keyword", title, "unsafe", note, name="materialize_grads", value="True")


def _pass_it_on(sources: SourceTexts, idle: Idle | None) -> tuple[Remedy, ...]:
    """Give the idle argument to the keyword of the same name that a call in its function leaves at None."""
    if idle is None:
        return ()
    function, argument, place = idle
    for call in bindings.every_node(sources, place.file):
        if not isinstance(call, ast.Call) or not place.line <= call.lineno <= place.end_line:
            continue
        if any(k.arg == argument and is_constant(k.value, None) for k in call.keywords):
            title = f"Pass `{argument}` on instead of None"
            note = "What is passed to the function enters its result, and gradients reach it."
            at = bindings.frame_of(sources, place.file, call, function)
            return remedy_at(at, "set_keyword", title, "unsafe", note, name=argument, value=argument)
    return ()


def _use_it(program: Program, idle: Idle | None) -> tuple[Remedy, ...]:
    """Say which expression in the idle function stands where its argument belongs, if the source shows it."""
    if idle is None or step_between(program) is not None:
        return ()
    function, argument, place = idle
    again = name_usage.made_again(program.sources, place, argument)
    note = f"What the caller passes as `{argument}` has to enter its result, which is made of other tensors now."
    if again:
        note = f"`{again}` is computed there again, and it is what a variable `{argument}` holds outside: write "
        note += f"`{argument}` in its place."
    return (Remedy("use_argument", f"Compute the result of `{function}` from `{argument}`", "display", note),)


# A failure where nothing is recorded, by a block or within a Function's backward: told, and the latter recorded.


def told_under_way(program: Program) -> Finding | None:
    """The block, for a loss without a graph; None where none is under way, or where a cut was seen."""
    if not without_graph(program.raised) or program.cuts:
        return None
    within = _in_backward(program)
    if within is not None:
        return _told_in_backward(program, within)
    found = mode_under_way(program.sources, program.evidence.extras, program.raised)
    if found is None:
        return None
    mode, at = found
    ends = "`torch.inference_mode(False)`" if mode == "inference_mode" else "`torch.enable_grad()`"
    return Finding(
        0.7,
        "likely",
        f"the loss is computed within a block of `{mode}`, which keeps its graph from being recorded",
        f"The block that {where(at)} enters is still under way where this fails. Nothing that runs in it is recorded, "
        f"unless {ends} is entered further in. Run this part outside of the block, or leave the derivative out there.",
        (
            span("cause", at, f"`{mode}` is switched on here, and on still when this fails"),
            *program.raised_span("the loss that arrives here has no graph"),
        ),
        because=f"{where(at)} has switched `{mode}` on, and the failing line runs within that block",
    )


def _in_backward(program: Program) -> Frame | None:
    """The user's line in a Function's backward that the failing call was made from, where recording is off in it."""
    stack = program.raised_stack
    runs = [i for i, f in enumerate(stack) if runs_backward(f)]
    if not runs or recording_was_on(program.evidence.extras):
        return None
    return next((f for f in stack[runs[-1] + 1 :] if f.user), None)


def _told_in_backward(program: Program, line: Frame) -> Finding:
    """What a backward computes has no graph: the engine runs it with the grad mode of ``create_graph``
    (torch/csrc/autograd/engine.cpp)."""
    sources, name = program.sources, line.function.rsplit(".", 1)[0].rsplit(".", 1)[-1]
    call = bindings.call_at(sources, line)
    output = bindings.argument(call, 0, "outputs")
    made = bindings.assignments(sources, line, output.id) if isinstance(output, ast.Name) else []
    near = [f for f, _ in made if f.line < line.line][-1:]
    to = f" to {line.line}" if near else ""
    first = near[0] if near else line
    title = f"Record what {'lines' if near else 'line'} {where(first)}{to} compute{'' if near else 's'}: "
    title += f"`with torch.enable_grad():` around {'them' if near else 'it'}"
    note = "What backward differentiates has a graph then; the gradients that it returns are unrecorded, as before."
    return Finding(
        0.97,
        Proof.GRAPH_END.where(bool(near)),
        f"`{name}.backward` differentiates what it computes, and nothing is recorded in a backward",
        f"Autograd runs the backward of a Function with recording off, unless `create_graph` is set, so that what "
        f"`{name}.backward` computes has no graph. Compute what is differentiated under `torch.enable_grad()`.",
        (
            *(span("cause", f, "computed here without being recorded") for f in near),
            *program.raised_span("what is differentiated here has no graph"),
        ),
        remedies=remedy_at(first, "enable_grad_block", title, "safe", note, last=place(line)),
    )


# A call that computes a loss and differentiates it, under a switch that is its caller's: recorded for that call.

_CALL_NOTE = "What this call computes has a graph then; what stands around it under the switch stays unrecorded."


def recorded_call(sources: SourceTexts, cut: Cut, raised: Raised | None, switch: Frame | None) -> tuple[Remedy, ...]:
    """``with torch.enable_grad():`` round the innermost call in which the cut and the failing backward both lie.

    An attack, a bound or a training loop inside an evaluation under ``no_grad``: the evaluation's switch is right, and
    this one call in it needs recording. Told where that call was made by the function that was switched off, or below
    it; a cut and a backward that stand in that function side by side are its own. Where other calls lead to the same
    two lines, these lines are recorded instead: which of the two it is, the trial tells.
    """
    call = _common_call(sources, cut, raised, switch)
    if call is None or raised is None or cut.grad_mode or cut.switch_kind == "inference_mode":
        return ()
    pairs = zip(cut.stack, raised.stack, strict=False)
    parted = next(((a, b) for a, b in pairs if a.user and not a.on_lines_of(b)), None)
    if parted is None or len(bindings.calls_named(sources, parted[0].function.rpartition(".")[2])) < 2:
        return _recorded_at(call)
    return (*_recorded_at(call), *_recorded_lines(*parted))


def recorded_derivative(cut: Cut, raised: Raised | None) -> tuple[Remedy, ...]:
    """The same where an installed package has switched recording off, as a trainer does for an evaluation, and what
    fails is an ``autograd.grad`` of the user's: a derivative that is a part of the computation wherever it runs.

    Where the package calls the very function that differentiates (a solver its right-hand side), its lines from the
    one that was not recorded to the derivative.
    """
    if cut.grad_mode or cut.switch_kind == "inference_mode" or not cut.switch or raised is None:
        return ()
    way, switch = alike(cut.stack, raised.stack), cut.switch[-1]
    below = [i for i, f in enumerate(way) if f.in_function_of(switch) and f.line > switch.line]
    found = innermost_user(way[below[-1] + 1 :]) if below else None
    if found is not None:
        return _recorded_at(found)
    parted = next(zip(cut.stack[len(way) :], raised.stack[len(way) :], strict=False), None)
    return _recorded_lines(*parted) if below and parted is not None else ()


def _recorded_at(call: Frame) -> tuple[Remedy, ...]:
    title = f"Record what the call at {where(call)} computes: `with torch.enable_grad():` around it"
    return remedy_at(call, "enable_grad_block", title, "unsafe", _CALL_NOTE)


def _recorded_lines(cut: Frame, derivative: Frame) -> tuple[Remedy, ...]:
    """From the statement that was not recorded to the one that differentiates, of one function."""
    if not cut.user or not cut.in_function_of(derivative) or cut.line >= derivative.line:
        return ()
    lines = f"from {where(cut)} to {where(derivative)}"
    title = f"Record what is computed {lines}: `with torch.enable_grad():` around it"
    note = "The derivative has a graph wherever this function is called; what calls it stays unrecorded."
    return remedy_at(cut, "enable_grad_block", title, "unsafe", note, last=place(derivative))


def _common_call(sources: SourceTexts, cut: Cut, raised: Raised | None, switch: Frame | None) -> Frame | None:
    """The innermost call of the user's that leads to both, at or below the function with the switch."""
    if raised is None or switch is None:
        return None
    way, (first, last) = alike(cut.stack, raised.stack), _function_of(sources, switch)
    below = [i for i, f in enumerate(way) if f.file == switch.file and max(first, switch.line + 1) <= f.line <= last]
    found = innermost_user(way[below[0] :]) if below else None
    return found if found is None or not _all_of_the_block(sources, switch, found) else None


def _all_of_the_block(sources: SourceTexts, switch: Frame, call: Frame) -> bool:
    """Whether the statement with this call is all that stands under the switch: no other is to stay unrecorded."""
    root = bindings.tree(sources, switch.file) if call.file == switch.file else None
    blocks = (n for n in each(root, ast.With) if len(n.body) == 1 and n.lineno <= switch.line < n.body[0].lineno)
    return any(not hasattr(n.body[0], "body") and paths.covers(n.body[0], call.line) for n in blocks)


def _function_of(sources: SourceTexts, switch: Frame) -> tuple[int, int]:
    """The first and the last line of the function that a switch stands in, or decorates; of the file at its level."""
    root = bindings.tree(sources, switch.file)
    own = [n for n in each(root, ast.FunctionDef, ast.AsyncFunctionDef) if switch.line <= (n.end_lineno or 0)]
    around = [(bindings.first_line(n), n.end_lineno or 0) for n in own if bindings.first_line(n) <= switch.line]
    return max(around, default=(1, sources[switch.file].count("\n") + 1))


# What else stands under a switch that keeps a loss from being recorded: it may be what the switch was meant for.

_FILLING = frozenset({"append", "appendleft", "extend", "insert", "add"})


def meant_for_one(
    sources: SourceTexts, cut: Sequence[Frame], failing: Sequence[Frame], switch: Frame, parameters: Collection[str]
) -> str:
    """What no run tells of a switch that is taken away, as the end of a sentence; empty where it covers one value.

    A block under which several statements make what the loss is made of may be meant for some of them (a target), so
    may one that calls several modules with parameters (a frozen backbone, a head), and so may one in a function, or the
    decorator of one, that is called at several places.

    Args:
        cut: the stack of the operation that was not recorded.
        failing: the stack of the failing call.
        switch: the place of the block's item, or of the decorator.
        parameters: the names of the program's parameters.
    """
    root = bindings.tree(sources, switch.file)
    for node in walked(root):
        if isinstance(node, ast.With | ast.AsyncWith) and any(
            paths.covers(i.context_expr, switch.line) for i in node.items
        ):
            values = _values_of(root, node, [f.line for f in failing if f.user and f.file == switch.file])
            values = values if len(values) > 1 else _modules_of(node, parameters)
            if len(values) > 1:
                return f"which of {listing(values)} the block is meant for, no run tells"
            around = bindings.function_around(root, node.lineno)
            return open_at_calls(sources, cut, switch.file, around) if around is not None else ""
        if isinstance(node, Function) and any(paths.covers(d, switch.line) for d in node.decorator_list):
            return open_at_calls(sources, cut, switch.file, node)
    return ""


def _values_of(root: ast.Module, block: ast.With | ast.AsyncWith, failing: list[int]) -> list[str]:
    """One name for each statement of the block that makes a part of the loss, or of what the function returns."""
    every = sorted(statements(bindings.scope_around(root, block.lineno)), key=lambda s: s.lineno)
    end = block.end_lineno or block.lineno
    wanted: set[str] = set()
    for s in reversed(every):
        if not (s.lineno > end or paths.covers(block, s.lineno)) or isinstance(
            s, ast.With | ast.For | ast.While | ast.If
        ):
            continue
        ends = isinstance(s, ast.Return) or any(paths.covers(s, line) for line in failing)
        if (s.lineno > end and (ends or wanted & {*_filled(s)})) or (isinstance(s, ast.Return) and s.lineno <= end):
            wanted |= paths.names_read(s)
    made = [s for s in every if paths.covers(block, s.lineno) and s is not block and wanted & {*_filled(s)}]
    return [f"`{next(n for n in _filled(s) if n in wanted)}`" for s in made]


def _filled(statement: ast.AST) -> list[str]:
    """What a statement binds or writes into, and the list that it appends to."""
    call = paths.bare_call(statement)
    if is_method_call(call) and call.func.attr in _FILLING:
        return [paths.key(call.func.value)]
    return paths.names_written(statement)


def _modules_of(block: ast.With | ast.AsyncWith, parameters: Collection[str]) -> list[str]:
    """The modules with parameters that a block calls by name, each once, in their order."""
    calls = [n for s in block.body for n in each(s, ast.Call)]
    named = sorted((c for c in calls if paths.is_path(c.func)), key=lambda c: (c.lineno, c.col_offset))
    found = (paths.key(c.func) for c in named)
    return list(dict.fromkeys(f"`{path}`" for path in found if any(within(path, parameters).values())))


# Scoping a switch: where ``set_grad_enabled(False)`` was thrown as a statement, which computations it was meant for.
# The run tells what was computed from parameters while it was in force (``extras["unrecorded"]``). Of that, what lies
# in the code around the statement is what its author had in mind; what leads to the failing backward is not.

_NOTE = "Recording is off there alone, and what the switch turned off besides is recorded again."


def scoped(program: Program, cut: Cut, switch: Frame) -> tuple[Remedy, ...]:
    """The remedies that keep recording off only where the statement at ``switch`` was meant to; none for a block.

    The statements that follow it in its block go under ``with torch.no_grad():`` if they compute; otherwise the
    functions beside it that compute (methods of the same class, functions of the same file) get ``@torch.no_grad()``.
    """
    source = bindings.source_at(program.sources, switch)
    statement = source.node_statement(Place.of(switch))
    if statement is None or paths.bare_call(statement) is None:
        return ()
    around, index = source.node_block(statement)
    following = around[index + 1 :]
    work = [w for w in (_own(program.sources, stack) for stack in _unrecorded(program.evidence.extras)) if w]
    trained = _trained_paths(program, cut)
    drop = edit_at("delete_statement", bindings.frame_of(program.sources, switch.file, statement))
    if following and _computes(work, switch.file, following) and not _computes(trained, switch.file, following):
        first, last = (bindings.frame_of(program.sources, switch.file, s) for s in (following[0], following[-1]))
        block = edit_at("no_grad_block", first, last=place(last))
        title = "Switch recording off for the lines that follow only: `with torch.no_grad():`"
        return remedy_at(switch, "several", title, "unsafe", _NOTE, edits=[drop, block])
    # The methods of the class that the statement lies in; outside of classes, the functions of the file.
    beside = own_nodes(bindings.class_around(source.tree, statement.lineno) or source.tree)
    functions = [f for f in beside if isinstance(f, Function) and not _computes(trained, switch.file, [f])]
    entered = _entered(work, switch.file, functions)
    if not entered:
        return ()
    shown = ", ".join(f"`{f.name}`" for f in entered[:3])
    bodies = [bindings.frame_of(program.sources, switch.file, f.body[0]) for f in entered]
    decorate = [edit_at("no_grad_decorator", body) for body in bodies]
    title = f"Switch recording off where this helper computes only: `@torch.no_grad()` on {shown}"
    return remedy_at(switch, "several", title, "unsafe", _NOTE, edits=[drop, *decorate])


def _unrecorded(extras: dict[str, Any]) -> list[list[Frame]]:
    told = extras.get("unrecorded")
    return [frames(e.get("stack")) for e in (told if isinstance(told, list) else []) if isinstance(e, dict)]


def _own(sources: SourceTexts, stack: Sequence[Frame]) -> list[Frame]:
    return [f for f in stack if f.user and f.file in sources]


def _trained_paths(program: Program, cut: Cut) -> list[list[Frame]]:
    """The calls that have to be recorded: those to the failing backward, to the cut, and to what is trained by it."""
    owned = {name for o in program.optimizers for name in o.parameters}
    more = [c.stack for c in program.cuts if owned & set(c.behind)]
    return [_own(program.sources, stack) for stack in (program.raised_stack, cut.stack, *more)]


def _computes(stacks: Iterable[Sequence[Frame]], file: str, parts: Sequence[ast.stmt]) -> bool:
    """Whether one of these calls goes through one of these statements."""
    return any(f.file == file and paths.covers(p, f.line) for stack in stacks for f in stack for p in parts)


def _entered(work: list[list[Frame]], file: str, functions: Sequence[Function]) -> list[Function]:
    """By which of these functions the work was entered: the outermost ones."""
    found: dict[int, Function] = {}
    for stack in work:
        outermost = next(
            (f for frame in stack if frame.file == file for f in functions if paths.covers(f, frame.line)), None
        )
        if outermost is not None:
            found[outermost.lineno] = outermost
    return list(found.values())


# Letting what is to learn require gradients, where it is made.


def required(sources: SourceTexts, learners: list[Learner]) -> tuple[Remedy, ...]:
    """The flag where each is made, in its own call where that takes one."""
    edits: list[dict[str, Any]] = []
    for one in learners:
        if one.value is not None and takes_the_flag(sources, one):
            edits.append(edit_at("set_keyword", one.value, name="requires_grad", value="True"))
        elif one.value is not None:
            edits.append(edit_at("require_input_grad", one.value))
        else:
            edits.append(edit_at("require_input_grad", one.frame, name=one.name))
    note = "Autograd then records what is computed from it; no number of the forward pass changes."
    return tuple(together(edits, f"Let {named(learners)} require gradients", "unsafe", note))


# Letting the parameters learn that an optimizer was given: after the freezing, and nothing more than it holds.


def unfreeze(program: Program, freezing: list[Frame], seen: Sequence[Frame] = ()) -> tuple[Remedy, ...]:
    """Make trainable what the one optimizer holds, before the statement that makes it; or, where an ``if`` and its
    ``else`` freeze alike, so that the condition decides nothing, let the ``else`` keep them trainable.

    ``seen``: the user's frames as the flag was taken away."""
    arm = _other_arm(program.sources, freezing)
    if arm is not None:
        title = f"Leave the others trainable, at {where(arm)}"
        note = "Both branches freeze, so the condition decides nothing: only what it names stays frozen then."
        return remedy_at(arm, "rewrite", title, "unsafe", note, pairs=[["{flag} = {_}", "{flag} = True"]])
    frozen = {p.name for p in program.parameters if not p.buffer and not p.requires_grad}
    holders = [o for o in program.optimizers if o.parameters and frozen & {*o.parameters}]
    making = made(program.sources, holders[0]) if len(holders) == 1 else None
    if making is None or not freezing:
        return ()
    before = [any(_is_before(program.sources, g, making) for g in (seen if f in seen else [f])) for f in freezing]
    if not all(before):
        return ()
    return _whole(program.sources, making, holders[0])


def _whole(sources: SourceTexts, making: Made, optimizer: Optimizer) -> tuple[Remedy, ...]:
    call = making.statement.value
    given = bindings.argument(call, 0, "params") if isinstance(call, ast.Call) else None
    function = given.func if isinstance(given, ast.Call) and not given.args and not given.keywords else None
    if not is_attribute(function, "parameters"):
        return ()
    module = bindings.text_of(function.value)
    if heads := _made_anew(sources, making, module):
        statements, at = [f"{h}.requires_grad_(True)" for h in heads], making.frame(sources)
        edits = [edit_at("add_statement", at, statement=s, before=True) for s in statements]
        shown = listing([f"`{h}`" for h in heads])
        note = f"This unfreezes what was replaced, and nothing else that lies in `{module}`."
        title = f"Let {shown} learn, which {'was' if len(heads) == 1 else 'were'} put into `{module}`"
        return tuple(together(edits, title, "unsafe", note))
    title = f"Let `{module}` learn, which {f'`{optimizer.name}`' if optimizer.name else 'the optimizer'} was given"
    note = (
        f"This unfreezes what lies in `{module}`, and nothing else; what the loss does not use gets no gradient by it."
    )
    at, text = making.frame(sources), f"{module}.requires_grad_(True)"
    whole = remedy_at(at, "add_statement", title, "unsafe", note, statement=text, before=True)
    left = f"whether all of `{module}` is to learn, which the program freezes and hands to its optimizer, no run tells"
    return tuple(replace(r, open=left) for r in whole)


def _made_anew(sources: SourceTexts, making: Made, module: str) -> list[str]:
    """The parts that the program has put into a network, before its optimizer, in the place of what it had:
    ``model.fc = nn.Linear(512, 3)``. Who freezes all of it behind that hardly means these."""
    line = making.statement.lineno
    found: dict[str, None] = {}
    for node in each(bindings.tree(sources, making.file), ast.Assign):
        if node.lineno < line and isinstance(node.value, ast.Call):
            builds = last_word(node.value.func)[:1].isupper()
            places = [bindings.text_of(t) for t in node.targets if isinstance(t, ast.Attribute | ast.Subscript)]
            found.update((p, None) for p in places if builds and p.startswith((f"{module}.", f"{module}[")))
    return list(found)


def _is_before(sources: SourceTexts, frame: Frame, making: Made) -> bool:
    """Whether the optimizer is surely made behind this statement: in its function, or in one that calls that above."""
    root = bindings.tree(sources, frame.file)
    line = making.statement.lineno
    around = bindings.function_around(root, frame.line)
    own = bindings.tree(sources, making.file)
    outer = bindings.function_around(own, line)
    if frame.file == making.file and (around is outer or (around and outer and around.lineno == outer.lineno)):
        return frame.line < line
    if around is None:
        return False
    calls = (n for n in own_nodes(outer or own) if isinstance(n, ast.Call) and n.lineno < line)
    return any(bindings.text_of(c.func).rsplit(".", 1)[-1] == around.name for c in calls)


def _other_arm(sources: SourceTexts, freezing: list[Frame]) -> Frame | None:
    """The assignment in the ``else`` of an ``if`` whose own branch does the very same."""
    for file in {f.file for f in freezing}:
        for node in each(bindings.tree(sources, file), ast.If):
            if len(node.body) == 1 == len(node.orelse):
                one, other = node.body[0], node.orelse[0]
                at = bindings.frame_of(sources, file, other)
                same = ast.unparse(one) == ast.unparse(other)
                if same and any((f.line, f.column) == (at.line, at.column) for f in freezing):
                    return next(f for f in freezing if (f.line, f.column) == (at.line, at.column))
    return None


# A generator of parameters that a first loop uses up, so that a second one has nothing to run over.


def used_up(sources: SourceTexts) -> tuple[Remedy, ...]:
    """Make a list of each such generator."""
    scopes: list[tuple[str, ast.AST]] = [(f, bindings.tree(sources, f)) for f in sources]
    scopes += bindings.everywhere(sources, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [bindings.frame_of(sources, f, value) for f, scope in scopes for value in _generators(scope)]
    why, note = "the first loop uses the generator up", "The second loop then runs over the parameters too."
    titles = ((f, f"make a list of the parameters at {where(f)}: {why}") for f in found)
    return tuple(r for f, title in titles for r in remedy_at(f, "rewrite", title, "unsafe", note, pairs=LIST))


def _generators(scope: ast.AST) -> list[ast.expr]:
    """The calls whose result has a name that two loops of this scope run over, bound once."""
    inside = list(own_nodes(scope))
    loops = [n.iter.id for n in inside if isinstance(n, ast.For) and isinstance(n.iter, ast.Name)]
    bound = [(only(n.targets), n.value) for n in inside if isinstance(n, ast.Assign)]
    names = [t.id for t, _ in bound if isinstance(t, ast.Name)]
    twice = [(t.id, v) for t, v in bound if isinstance(t, ast.Name) and names.count(t.id) == 1 < loops.count(t.id)]
    return [v for _, v in twice if paths.called(v) in ITERATORS]
