"""GD305: every parameter that the loss depends on has requires_grad=False."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import cast

from graphdoc.causes.base import Page
from graphdoc.evidence import Cut, Frame, Parameter, Sign, SourceTexts
from graphdoc.finding import Finding
from graphdoc.model import Confidence, Span
from graphdoc.program import bindings, learning
from graphdoc.program.learning import kept_frozen
from graphdoc.program.observed import Program
from graphdoc.program.parameter_paths import within
from graphdoc.program.proof import Proof, likely
from graphdoc.program.spans import span, span_of
from graphdoc.program.tracker import run_over
from graphdoc.remedies.recording import unfreeze, used_up
from graphdoc.source.module import each
from graphdoc.source.paths import path_of
from graphdoc.story import missing_graph
from graphdoc.story.wording import all_told, first_told, folded, optimizer_of

PAGE = Page(
    code="GD305",
    title="All parameters that the loss depends on are frozen",
    families=("no-graph", "legacy", "ddp", "silent"),
    what_happened="""\
The forward ran with recording on and through ordinary operations, but none of the parameters in it requires
gradients: `requires_grad_(False)` or a loop with `p.requires_grad = False` has frozen the whole network. Often the
new head was frozen together with the backbone (it was put in *before* the loop), the freezing of one phase (the
generator while the discriminator trains) was not undone for the next, or a function returns a frozen copy and the
copy is trained.

A module that freezes a part of itself in its `train()` does so at every `model.train()`: what the program has unfrozen
before the training stays frozen, without an error where the rest is trained.

Or nothing was frozen at all: `module.requires_grad = False`, without the underscore and the call, sets an attribute
that PyTorch never reads, and the module goes on training. So does a flag that is misspelled, `p.require_grad = False`.
""",
    why="""\
A result requires gradients if at least one of its inputs does. With frozen parameters and plain data there is no such
input, so no operation is recorded and the loss has no `grad_fn`: *element 0 of tensors does not require grad and does
not have a grad_fn*. The flag counts at the time of the forward: setting it back afterwards does not make the graph
appear.

`DistributedDataParallel` checks the same at construction: *not needed when a module doesn't have any parameter that
requires a gradient*. An optimizer accepts frozen parameters without a word and never changes them.""",
    example="""\
model.fc = nn.Linear(64, 10)
for p in model.parameters():
    p.requires_grad = False  # the new head as well
loss = F.cross_entropy(model(x), y)
loss.backward()""",
    use_instead="""\
for p in model.parameters():
    p.requires_grad = False
model.fc = nn.Linear(64, 10)  # new parameters require gradients
loss = F.cross_entropy(model(x), y)
loss.backward()""",
    fix_safety="""\
Unsafe: making parameters trainable is the author's choice of *which*. Unfreeze what the optimizer holds, and nothing
more; if the optimizer was made from `filter(lambda p: p.requires_grad, ...)` while everything was frozen, it has to
be made again.

Parameters frozen for one phase are best frozen and released in one place, around the phase, so that an early `return`
cannot leave them frozen.""",
    not_this="""\
- The parameters require gradients and recording was off: `cut-by-no-grad`.
- Gradients are wanted with respect to the *input*, not to the parameters: `input-needs-grad`.
- Only some parameters are frozen: the loss has a graph and there is no error.
- `model.eval()` freezes nothing.""",
    references=(
        ("Autograd mechanics: setting requires_grad", "notes/autograd.html#setting-requires-grad"),
        ("torch.nn.Module.requires_grad_", "generated/torch.nn.Module.html#torch.nn.Module.requires_grad_"),
    ),
)

_UNSEEN = "all parameters that the loss depends on have `requires_grad=False`."


def recognise(program: Program) -> Finding | None:
    """A forward whose parameters all had ``requires_grad`` off; or DDP's refusal of such a module."""
    if program.raised is None:
        return _seen(program)
    if program.message("ddp-no-grad-parameters"):
        return _refused(program)
    if not missing_graph.without_graph(program.raised):
        return None
    if program.evidence.from_text:
        return missing_graph.unseen(program, 0.2, PAGE.title, _UNSEEN)
    if (kept := kept_frozen(program)) is not None:
        return missing_graph.still_frozen(program, kept)
    cut = missing_graph.find_cut(program, "frozen")
    return _from_cut(program, cut) if cut is not None else _nothing_trainable(program)


def _seen(program: Program) -> Finding | None:
    """What a run that went on has shown: whether a parameter learns is not as it was meant."""
    replaced = {s.optimizer for s in program.signs if s.kind == "held-stale"}  # GD707 says why it is so
    return first_told(
        program,
        ("frozen-throughout", lambda _, s: None if s.weak or s.optimizer in replaced else _nothing_learns(program, s)),
        ("frozen-again", missing_graph.frozen_again),
        ("frozen-throughout", missing_graph.frozen_throughout),
        ("misspelled-flag", missing_graph.misspelled_flag),
        ("flag-of-module", missing_graph.flag_of_module),
    )


def _nothing_learns(program: Program, sign: Sign) -> Finding | None:
    """All that the optimizers hold is frozen, so that what gets gradients is never stepped."""
    name, reached = optimizer_of(program.optimizers, sign), folded(sign.facts["reaches"])
    whom = f"go to {reached}, which no optimizer holds" if reached else "go to no parameter"
    mine = sign.parameters or _frozen(program.parameters)
    if sign.parameters:
        title = f"{name} steps and all that it holds is frozen: {folded(mine)}"
    elif mine and all(p.buffer or not p.requires_grad for p in program.parameters):
        title = f"{name} steps and holds no parameter: all are frozen"
    else:
        return None
    statements = [f for _, f in _statements(program, mine)]
    marks = _freezing(program, mine)
    step = span_of("related" if marks else "cause", sign.stack, "finds no gradient")
    return Finding(
        *likely(0.9),  # that no optimizer can change anything is seen; that one should is not
        title,
        "No parameter that an optimizer holds requires gradients, so no step changes anything. The gradients of the "
        f"loss {whom}.",
        (*marks, *step),
        because=f"in the first steps of {name} none of its parameters required gradients, had one, or was written to"
        if sign.parameters
        else f"after {sign.count} steps all groups of {name} are empty, and no other optimizer steps",
        remedies=(*used_up(program.sources), *unfreeze(program, statements)),
    )


def _from_cut(program: Program, cut: Cut) -> Finding:
    """A forward whose parameters were all frozen was seen."""
    strength, confidence = missing_graph.weigh(program, cut)
    told_forward, alone = missing_graph.frozen_forward(program.parameters)
    if not alone and confidence == "certain":
        confidence = "likely"  # what the others have computed may have come in by a write that is not followed
    used = [*cut.behind, *_names_used(program.sources, cut)] if cut.behind else _frozen(program.parameters)
    since = {p.name for p in program.parameters if p.requires_grad} & {*cut.behind}
    if since:
        return missing_graph.unfrozen_since(program, cut, since, _freezing(program, sorted(since)), strength)
    told = missing_graph.story(program, cut, "computed from parameters that do not require gradients")
    trainable = any(p.requires_grad and not p.buffer for p in program.parameters)
    seen = [f for f in cut.switch if f.user]
    models = {name.partition(".")[0] for name in cut.behind}
    whole = [name for name in _frozen(program.parameters) if name.partition(".")[0] in models]
    shown = cut.behind if trainable else [*cut.behind, *whole]
    frozen = f"{folded(shown)} {'is' if len({*shown}) == 1 else 'are'} frozen"
    title = f"no parameter of this loss requires gradients: {frozen}" if cut.behind else PAGE.title
    chosen: Sequence[Frame] = ()
    held = [] if trainable else [p for p in program.parameters if p.owners and not p.buffer]
    if held and not {p.name for p in held} & {*cut.behind}:
        # The last that the loss was computed from is nobody's to train: what was to be lies before it.
        used, seen = [p.name for p in held], []
        names = all_told(program.optimizers, sorted({o for p in held for o in p.owners}))
        title = (
            f"all that {' and '.join(names)} {'is' if len(names) == 1 else 'are'} to train is frozen: {folded(used)}"
        )
        chosen = learning.unfreezing(program.sources)  # which of them it was to unfreeze there, no run tells
    marks = _freezing(program, used, seen)
    others = (span("related", f, "unfreezes none of these") for f in chosen[:1])
    statements = [f for _, f in _statements(program, used, seen)]
    return Finding(
        strength,
        confidence,
        title,
        told_forward,
        (*marks, *others, *told),
        (*missing_graph.facts_of(program.cuts, cut), *_frozen_names(program.parameters)),
        (*used_up(program.sources), *(() if chosen else unfreeze(program, statements, seen))),
    )


def _nothing_trainable(program: Program) -> Finding | None:
    """No operation was seen to lose the graph, and frozen parameters would explain it."""
    marks = _freezing(program, _frozen(program.parameters))
    trainable = [p for p in program.parameters if not p.buffer and p.requires_grad]
    if (
        program.cuts
        or not missing_graph.recording_was_on(program.evidence.extras)
        or not _frozen_names(program.parameters)
        or (trainable and not marks)
    ):
        return None
    made = span_of(
        "cause",
        missing_graph.loss_made(program.evidence.extras)[1],
        "nothing that this was computed from requires gradients",
    )
    strength, confidence = (0.5, "possible") if trainable else (0.85, "likely")
    return Finding(
        strength,
        cast(Confidence, confidence),
        PAGE.title,
        missing_graph.FORWARD,
        (*marks, *made, *program.raised_span("the loss that arrives here has no graph")),
        _frozen_names(program.parameters),
    )


_DDP = (
    "`DistributedDataParallel` averages gradients, and this module will never have any: {why}. Leave such a module "
    "unwrapped, or unfreeze what is to be trained before wrapping it."
)


def _refused(program: Program) -> Finding:
    """``DistributedDataParallel`` refuses a module: all its parameters are frozen, or it has none at all."""
    frame = program.raised_at
    given = bindings.argument(bindings.call_at(program.sources, frame), 0, "module")
    name = path_of(given) if given is not None else ""
    frozen = [n for n in _frozen(program.parameters) if name and n.startswith(f"{name}.")]
    what = f"`{name}`" if name else "the module"
    why = "all its parameters have `requires_grad=False`" if frozen else "it has no parameter that requires gradients"
    here = span_of("cause", frame, f"{what} has no parameter that requires gradients")
    marks = _freezing(program, frozen) if frozen or not name else ()
    return Finding(
        *program.weight(0.9, Proof.RAISED.where(bool(frozen))),
        f"{what} is wrapped in DistributedDataParallel, and no parameter of it requires gradients",
        _DDP.format(why=why),
        (*marks, *here, *(program.raised_span("") if not here else ())),
    )


def _frozen(parameters: list[Parameter]) -> list[str]:
    return [p.name for p in parameters if not p.buffer and not p.requires_grad]


def _names_used(sources: SourceTexts, cut: Cut) -> list[str]:
    """What the lines name on which the loss was computed: of several frozen networks those that it goes through."""
    lines = {(f.file, f.line) for f in cut.stack if f.user}
    return [
        name
        for file, line in sorted(lines)
        for node in each(bindings.tree(sources, file), ast.Name, ast.Attribute)
        if node.lineno == line
        for name in bindings.names_in(node)
    ]


def _frozen_names(parameters: list[Parameter]) -> tuple[str, ...]:
    frozen = _frozen(parameters)
    if not frozen:
        return ()
    more = f" and {len(frozen) - 4} more" if len(frozen) > 4 else ""
    return (f"requires_grad is False for {', '.join(frozen[:4])}{more}",)


def _freezing(program: Program, names: list[str], seen: Sequence[Frame] = ()) -> tuple[Span, ...]:
    """The statements of the program that freeze these: at most two, since the role ``cause`` allows three places."""
    found = _statements(program, names, seen)
    marks = [span("cause", f, "frozen here" if known else "freezes parameters") for known, f in found[:2]]
    outer = seen[-2:-1] if seen and found and found[0][1] is seen[-1] else ()
    return (*marks, *(span("related", f, "calls what freezes them") for f in outer))


def _statements(program: Program, names: list[str], seen: Sequence[Frame] = ()) -> list[tuple[bool, Frame]]:
    """The statements that freeze these, those first that say so.

    One that names what it freezes, in its own words or in the loop around it, freezes nothing else. ``seen``: the
    user's frames as one of these lost its flag. Where no statement has a word for them, the innermost of these did it.
    """
    sources, every, found = program.sources, [*names, *program.names], list[tuple[bool, Frame]]()
    for file, node in bindings.everywhere(sources, ast.Call, ast.Assign):
        frozen, value = learning.flag_set(node)
        if frozen is not None and value is False:
            at = bindings.frame_of(sources, file, node)
            # An argument, or `self`, says nothing of the module by itself.
            given = {n.arg for n in each(bindings.function_at(sources, at), ast.arg)}
            meant = [n for m in run_over(sources, file, frozen) or [frozen] for n in bindings.names_in(m)]
            told = [n for n in meant if n.split(".")[0] not in given or n.startswith("self.")]
            if not told or any(within(path, every).keys() & names for path in told):
                found.append((bool(told), at))
    if seen and not any(known for known, _ in found):
        return [(True, seen[-1])]
    return sorted(found, key=lambda f: not f[0])
