"""GD706: an optimizer is cleared in every iteration and never steps."""

from __future__ import annotations

import ast

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import AT_END, Event, Frame, Sign, optimizer_with
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.program import bindings
from graphdoc.program.gradient_reads import gradients_are_given, gradients_in
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import handed, may_step, spelled, written_step
from graphdoc.program.proof import first_sign, likely, name_of, of_steps
from graphdoc.program.remainders import NeverMet, is_of_whole_remainder, never_met
from graphdoc.program.spans import code_at, innermost, innermost_user, is_at, of_sign, place, span, span_of
from graphdoc.remedies.clipping import step_place
from graphdoc.source.module import Source, each
from graphdoc.source.paths import called, is_attribute, is_read, only
from graphdoc.story.wording import folded, optimizer_of

PAGE = Page(
    code="GD706",
    title="An optimizer is cleared again and again and never steps",
    families=("silent",),
    what_happened="""\
A loss is computed for some parameters, `backward()` fills their `.grad`, and the next `zero_grad()` of their optimizer
throws the gradients away. `step()` of this optimizer is never called, so these parameters keep their initial values. In
a program with several networks the others go on learning, and nothing looks broken. Or `step()` stands behind a
condition that never holds: `if i % accumulation:` where the remainder was to be 0.""",
    why="""\
`backward()` computes gradients and stores them; it changes no parameter. An optimizer changes parameters in `step()`
and nowhere else. PyTorch cannot know that a gradient was meant to be used.""",
    example="""\
critic_optimizer.zero_grad()
critic_loss = F.mse_loss(critic(state), target)
critic_loss.backward()

actor_optimizer.zero_grad()
actor_loss = -critic(actor(state)).mean()
actor_loss.backward()
actor_optimizer.step()""",
    use_instead="""\
critic_optimizer.zero_grad()
critic_loss = F.mse_loss(critic(state), target)
critic_loss.backward()
critic_optimizer.step()

actor_optimizer.zero_grad()
actor_loss = -critic(actor(state)).mean()
actor_loss.backward()
actor_optimizer.step()""",
    fix_safety="""\
Unsafe, because it decides when these parameters are updated. The step belongs right after the backward call whose loss
is for this optimizer alone: at the end of the iteration `.grad` may also hold gradients of other losses that pass
through these parameters. A condition that never holds is compared with 0 where the remainder is by 1.""",
    not_this="""\
- The optimizer steps, but what it holds is no longer what the model uses: `optimizer-holds-stale-parameters`.
- The program takes the gradients for a purpose of its own, for statistics or an update by hand.
- The optimizer steps, and the gradients do not reach it: `parameters-never-reached`.""",
    references=(links.OPTIM, "torch.optim.Optimizer.zero_grad"),
)


def recognise(program: Program) -> Finding | None:
    """The journal: gradients that no optimizer used were thrown away each time, and this one never stepped.

    Where others step by the same loss, only if no step of this one is written anywhere.
    """
    sign = first_sign(program.signs, "step-missing")
    if sign is None or _uses_gradients(program, sign):
        return None
    return _told(program, sign)


def _told(program: Program, sign: Sign) -> Finding | None:
    sources, optimizers = program.sources, program.optimizers
    name, program_name = optimizer_of(optimizers, sign), name_of(optimizers, sign)
    frame = innermost(sign.stack)
    own_one = optimizer_with(optimizers, sign.optimizer)
    waiting = written_step(sources, optimizers, own_one, frame) if frame is not None and own_one is not None else None
    if waiting is None and "kept" in sign.facts:
        waiting = only(may_step(sources, optimizers, sign.optimizer))
    taken = _taken(program, sign, waiting) if waiting is not None else None
    given = handed(sources, taken.stack, program_name) if taken is not None else None
    if taken is not None and given is not None:
        return _handed_another(program, sign, taken, given)
    numbers, calls = sign.facts.get("numbers", {}), int(sign.facts.get("calls", sign.count))
    never = never_met(sources, waiting, sign.stack, numbers, calls) if waiting is not None else None
    if waiting is not None and never is not None:
        return _told_never_due(program, sign, waiting, never)
    if "kept" in sign.facts or (waiting is not None and AT_END in sign.facts):
        return None  # a run of a few steps ends before others are due
    if sign.facts.get("shared") and may_step(sources, optimizers, sign.optimizer):
        return None  # what others' losses leave in its parameters is cleared until it is its turn
    step, clearing = (
        f"`{program_name}.{m}()`" if program_name else f"`{m}()` of {name}" for m in ("step", "zero_grad")
    )
    alone = sign.facts.get("alone", True)
    whose = f"gradients for {name} alone" if alone else f"gradients for {name}, which no optimizer uses"
    if sign.facts.get("shared"):
        whose = f"gradients for {name}, too"
    cleared = innermost(sign.other)
    follows = f"no {step} follows" if waiting is None else f"no step of {name} has followed"
    spans = [*of_sign(sign, f"{whose}; {follows}", "and they are thrown away here")]
    if waiting is not None:  # whether it is due yet, no run that ends before tells
        spans.append(span("related", waiting, "this step never ran"))
    remedies = []
    own = None
    if frame is not None and program_name:
        own = spelled(sources, program_name, frame, [cleared] if cleared is not None else [])
    if frame is not None and own is not None and waiting is None and not gradients_are_given(sources):
        at, before = step_place(sources, frame, cleared)
        where = "before the gradients are thrown away" if before else "after this backward call"
        title = f"call `{own}.step()` {where}"
        note = f"{name} updates {folded(sign.parameters)} by the gradients of this loss"
        args = {"place": vars(at), "statement": f"{own}.step()", "before": before}
        remedies.append(Remedy("add_statement", title, "unsafe", note, args))
    return Finding(
        0.95 if waiting is None else 0.5,
        of_steps(sign) if waiting is None else "possible",
        f"{name} {'never steps' if waiting is None else 'has not stepped once'}: "
        f"the gradients of {folded(sign.parameters) or 'its parameters'} are thrown away",
        "The gradients of this loss are for this optimizer's parameters alone. They are cleared without having been "
        "used."
        if alone
        else "This loss gives its parameters gradients as well. They are cleared without having been used."
        if sign.facts.get("shared")
        else "No optimizer uses a gradient of this loss. Each one that steps afterwards is cleared first; this one is "
        "cleared and never steps.",
        tuple(spans),
        remedies=tuple(remedies),
        because=f"{clearing} threw gradients away at least {sign.count} times, and {name} never stepped",
    )


_AT_ZERO = [[f"{{rest}}{unequal}", "{rest} == 0"] for unequal in (" != 0", " > 0", "")]


def _told_never_due(program: Program, sign: Sign, waiting: Frame, never: NeverMet) -> Finding:
    """The step stands behind a condition that would have held by now."""
    name, whose = optimizer_of(program.optimizers, sign), folded(sign.parameters) or "its parameters"
    by = f"`{never.by}` is {never.number}" if never.by != str(never.number) else f"remainders are taken by {never.by}"
    remedies: tuple[Remedy, ...] = ()
    if is_of_whole_remainder(never):
        note, by = f"{name} steps once in `{never.by}` rounds", by + ", and a remainder by 1 is always 0"
        remedies = remedy_at(never.at, "rewrite", "compare the remainder with 0", "unsafe", note, pairs=_AT_ZERO)
    return Finding(
        *likely(0.93),  # that it never steps is seen; that it should is how the source reads
        f"{name} never steps: the condition for its step has not held once",
        "The gradients of this loss are for this optimizer's parameters. Its step stands behind a condition on a "
        f"remainder by {never.number}, which a running count of these calls would have met at least twice.",
        (
            span("cause", never.at, "did not hold in any round" if never.wanted else "held in every round"),
            span("related", waiting, "so this step never ran"),
            *span_of("related", sign.stack, f"gradients for {whose}, which no step uses"),
        ),
        remedies=remedies,
        because=f"in {sign.facts['calls']} backward calls {name} never stepped; {by}",
    )


def _taken(program: Program, sign: Sign, written: Frame) -> Event | None:
    """The step of another optimizer that was made where this one's is written: the name means that one there."""
    steps = (e for e in program.evidence.events if e.kind == "step" and e.optimizer not in (sign.optimizer, -1))
    return next((e for e in steps if (at := innermost_user(e.stack)) is not None and is_at(at, vars(written))), None)


def _handed_another(program: Program, sign: Sign, taken: Event, given: Frame) -> Finding:
    """A function is handed another optimizer by this one's name, and by that one's own."""
    sources, optimizers = program.sources, program.optimizers
    name, own = optimizer_of(optimizers, sign), name_of(optimizers, sign)
    theirs, whose = f"`{code_at(sources, given)}`", folded(sign.parameters) or "its parameters"
    args = {"place": place(given), "inside": True, "operand": code_at(sources, given), "name": own}
    return Finding(
        0.95,
        of_steps(sign),
        f"{name} never steps: {theirs} does in its place",
        f"Where a step of {name} is written, the name means {theirs}. That one steps once more, and the gradients of "
        f"{whose} are thrown away.",
        (
            span("cause", given, f"hands over {theirs}"),
            *span_of("related", taken.stack, f"steps {theirs}"),
            *span_of("related", sign.stack, f"gradients for {name}; no step of it follows"),
            *span_of("related", sign.other, "and they are thrown away here"),
        ),
        remedies=(Remedy("use_instead", f"hand over `{own}`", "unsafe", f"{name} updates {whose}", args),),
        because=f"the gradients of {whose} were thrown away at least {sign.count} times, and {name} never stepped",
    )


_ONLY_LOOKS = {"zero_", "detach_", "norm"}


def _uses_gradients(program: Program, sign: Sign) -> bool:
    """Whether the program takes gradients for a purpose of its own: statistics, an update by hand, another's optimizer.

    In the files of the calls, and in those that they import. Clearing them, asking whether they are there and printing
    their norm are none in a run of many steps; what the class of this optimizer does with them is its step.
    """
    sources, unstepped = program.sources, optimizer_with(program.optimizers, sign.optimizer)
    own = {f.file for f in (*sign.stack, *sign.other) if f.user}
    stepped = any(n.attr == "step" for _, n in bindings.everywhere(sources, ast.Attribute))
    imported = {name for file in own for name in _imports(bindings.tree(sources, file))}
    for file, text in sources.items():
        if file not in own and not any(_is_module(file, name) for name in imported):
            continue
        source = Source(file, text)
        reads = [n for n in gradients_in(source.tree) if is_read(n)]
        reads = [n for n in reads if AT_END in sign.facts or not _only_looks(n, source.parents)]
        around = ((n, bindings.class_around(source.tree, n.lineno)) for n in reads)
        reads = [n for n, cls in around if cls is None or unstepped is None or cls.name != unstepped.type]
        if AT_END in sign.facts and any(_is_norm(n, source.parents) for n in each(source.tree, ast.Call)):
            return True
        if any(stepped or not _goes_into_another(n, source.parents) for n in reads):
            return True
    return False


def _is_norm(node: ast.Call, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a call gives the norm of gradients to something."""
    return called(node) in ("clip_grad_norm_", "get_total_norm") and not isinstance(parents.get(node), ast.Expr)


def _goes_into_another(node: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a gradient becomes that of another parameter: only a step uses it there."""
    above: ast.AST | None = node
    while isinstance(above, ast.expr):
        above = parents.get(above)
    return isinstance(above, ast.Assign) and all(is_attribute(t, "grad") for t in above.targets)


def _imports(root: ast.Module) -> set[str]:
    """The modules that a file names in its imports: ``a.b`` for ``from a import b`` as well, which may be one."""
    found: set[str] = set()
    for node in each(root, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        else:
            base = node.module or ""
            found.update((base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)))
    return found - {""}


def _is_module(file: str, name: str) -> bool:
    path = name.replace(".", "/")
    return f"/{file}".endswith((f"/{path}.py", f"/{path}/__init__.py"))


def _only_looks(node: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> bool:
    above = parents.get(node)
    while is_attribute(above, "data", "detach"):
        above = parents.get(above)
    if isinstance(above, ast.Compare):
        return all(isinstance(o, ast.Is | ast.IsNot) for o in above.ops)
    return is_attribute(above, *_ONLY_LOOKS)
