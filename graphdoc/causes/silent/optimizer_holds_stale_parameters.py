"""GD707: the optimizer was made before the model got the parameters that it computes with now."""

from __future__ import annotations

import ast

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Sign, SourceTexts, optimizer_with
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.model import Span
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import Made, made, made_again, rebuilt, regrouping, replacing, untying
from graphdoc.program.proof import Proof, likely, name_of, of_steps
from graphdoc.program.spans import innermost_user, level_of, place, span, span_of
from graphdoc.source.module import each, is_method_call, walked
from graphdoc.story.ungiven import kept_at
from graphdoc.story.wording import first_told, folded, listing, optimizer_of

PAGE = Page(
    code="GD707",
    title="An optimizer steps parameters that the model no longer has",
    families=("silent",),
    what_happened="""\
An optimizer is made from `model.parameters()`. Afterwards a layer of the model is replaced (a new head, a pruned layer,
a parametrization), or the whole model is copied. The loss is computed with the new parameters and gives them gradients.
The optimizer still holds the old ones, which get no gradient any more: its `step()` does nothing for the new ones.

Where two layers shared one weight and one of them gets its own afterwards, the optimizer steps the other alone. And
where `load_state_dict(state, assign=True)` loads one of two tied weights or both, each name has a parameter of its own
from then on, and an optimizer that is made later steps them apart. That call also leaves a mark in the metadata of
`state`, which `torch.save` keeps: a later `load_state_dict(state)` replaces the parameters as well.

An optimizer of copies, in 32 bits say, that are written into the model after each step, does not see a load into the
model: the first step puts the copies' values back.

Or parameters are replaced, in the model and in the optimizer's groups, between `backward()` and `step()`: when points
are added or removed, say. The gradients are those of the old ones, and the step leaves the new ones as they are.""",
    why="""\
An optimizer keeps references to the parameter tensors that it was given. It knows nothing of the module that they came
from. An assignment to an attribute of the module puts another tensor in their place there and nowhere else.""",
    example="""\
optimizer = torch.optim.Adam(model.parameters())
model.fc = nn.Linear(64, 10)
F.cross_entropy(model(x), y).backward()
optimizer.step()""",
    use_instead="""\
model.fc = nn.Linear(64, 10)
optimizer = torch.optim.Adam(model.parameters())
F.cross_entropy(model(x), y).backward()
optimizer.step()""",
    fix_safety="""\
Unsafe, because more is trained than before. A new optimizer begins without the state of the old one (momentum, Adam's
moments), and a scheduler that was made for the old one has to be made again too.""",
    not_this="""\
- The optimizer holds the right parameters and nobody calls its `step()`: `step-missing`.
- The parameters were never meant for this optimizer's module: `parameters-never-reached`.
- `model.to(device)` keeps the parameters: it changes their data in place.""",
    references=(links.OPTIM,),
)


MOST_WRITES = 2


def recognise(program: Program) -> Finding | None:
    """Nothing alive has what the optimizer holds; what the loss reaches instead is in no optimizer."""
    return first_told(
        program,
        ("held-stale", _told),
        ("suspect-untied", _untied),
        ("weights-parted", _parted),
        ("replaced-before-step", _replaced),
        ("load-taken-back", _taken_back),
    )


def _told(program: Program, sign: Sign) -> Finding:
    name = optimizer_of(program.optimizers, sign)
    own = name_of(program.optimizers, sign)
    making = made(program.sources, optimizer_with(program.optimizers, sign.optimizer))
    born = [Frame(**f) for frames in sign.facts.get("born", []) for f in frames]
    change = replacing(program.sources, making, sign.parameters, born) if making is not None else None
    later = rebuilt(program.sources, making, sign.parameters) if making is not None and change is None else None
    spans: list[Span] = []
    remedies: list[Remedy] = []
    whose = folded(sign.parameters)
    if making is not None:
        if (at := change or later) is not None:
            frame = bindings.frame_of(program.sources, making.file, at)
            spans.append(span("cause", frame, f"gives the model parameters that {name} does not hold"))
            if change in making.behind:
                remedies += _remedy(program.sources, making, at, own, whose)
            elif later is not None and (statement := made_again(program.sources, making)):
                title, note = f"make `{own}` again after this", f"`{own}` updates {whose}"
                remedies += remedy_at(frame, "add_statement", title, "unsafe", note, statement=statement)
        label = f"{name} gets the parameters that exist here"
        spans.append(span("related" if spans else "cause", making.frame(program.sources), label))
    if born and change is None and later is None:
        spans.insert(0, span("cause", kept_at(program.sources, born), f"gives the model what {name} does not hold"))
    spans += span_of(
        "consumed" if spans else "cause", sign.stack, "gives gradients to parameters that no optimizer holds"
    )
    what = "holds what the model no longer has"
    why = (
        "The parameters that the optimizer holds were replaced after it was made. It goes on stepping the old ones, "
        "which get no gradient."
    )
    if change is None and later is None and not born and sign.facts.get("gone", True):
        why = (
            "No module has the parameters that the optimizer holds: they were replaced, or are those of an earlier "
            "network. It goes on stepping them, and they get no gradient."
        )
    load, flagged = ([Frame(**f) for f in sign.facts.get(key, ())] for key in ("load", "flagged"))
    if (loads := innermost_user(load)) is not None:
        why = "A load with `assign=True` leaves in the metadata of its state that parameters are to be replaced. So a "
        why += "later load of that state replaces them too, and the optimizer goes on stepping the old ones."
        spans = [
            span("cause", loads, f"replaces the parameters that {name} holds, as the state's metadata asks for"),
            *span_of("cause", flagged, "leaves `assign=True` in the metadata of this state"),
            *(s for s in spans if s.role != "cause"),
        ]
        given = bindings.argument(bindings.call_at(program.sources, loads), 0, "state_dict")
        if given is not None:
            title, note = "load the state without its metadata", f"the numbers go into the parameters that {name} holds"
            source = bindings.frame_of(program.sources, loads.file, given)
            remedies[:0] = remedy_at(source, "rewrite", title, "unsafe", note, pairs=[["{it}", "dict({it})"]])
    if sign.facts.get("gathered"):
        why = (
            "A forward had run, so FSDP2 had gathered whole parameters in the place of its shards when the optimizer "
            "was made. Gradients go to the shards. Make the optimizer before the first forward, or call "
            "`model.reshard()` in front of it."
        )
    elif change is None and later is None and not sign.facts.get("gone", True):
        what = "holds none of what gets gradients"
        why = (
            "The optimizer steps others of the same shapes, which get no gradient: those of another network, or of "
            "this one before it was replaced."
        )
    return Finding(
        0.97,
        "likely" if change is None else of_steps(sign),
        f"{name} {what}: {whose} never learn{'s' * (len(sign.parameters) == 1)}",
        why,
        tuple(spans),
        remedies=tuple(remedies),
        because=f"{whose} got gradients and no optimizer holds them; those that {name} holds in their place got none",
        covers="GD3",  # what the optimizer holds by mistake need not learn
    )


def _untied(program: Program, sign: Sign) -> Finding | None:
    """The optimizer was given the whole model while two parameters of it were one; a statement behind has parted
    them."""
    name = name_of(program.optimizers, sign)
    making = made(program.sources, optimizer_with(program.optimizers, sign.optimizer))
    held = {p.name for p in program.parameters if sign.optimizer in p.owners}
    found = untying(program.sources, making, sign.parameters) if making is not None else None
    if making is None or found is None:
        return None
    change, mine = found
    trained = [
        p.name for p in program.parameters if p.requires_grad and not p.buffer and p.name.split(".")[0] == _root(mine)
    ]
    if any(n not in held and n not in mine for n in trained):
        return None  # not given as a whole
    whose, them = folded(mine), "it" if len(mine) == 1 else "them"
    frame = bindings.frame_of(program.sources, making.file, change)
    title = f"`{name}` does not hold {whose}: when it was made, weights were tied"
    text = "Two parameters of the model were one tensor, and the optimizer has it once. The one that was put in the "
    text += "place of the other afterwards is in no optimizer and keeps its values."
    spans = (
        span("cause", frame, f"gives the model a parameter that `{name}` does not hold"),
        span("related", making.frame(program.sources), f"`{name}` gets the parameters that exist here"),
        *span_of("consumed", sign.stack, "gives a gradient to the new parameter"),
    )
    remedies = tuple(_remedy(program.sources, making, change, name, whose))
    because = f"`{name}` holds everything else of `{_root(mine)}`; {whose} got gradients, no optimizer holds {them}, "
    because += f"and nothing has changed {them}"
    return Finding(*Proof.STEPS.at(0.93), title, text, spans, remedies=remedies, because=because)


def _parted(program: Program, sign: Sign) -> Finding:
    """What was one parameter of two names is two since a load, and both are stepped."""
    names, at = listing([f"`{n}`" for n in sign.facts["names"]]), innermost_user(sign.stack)
    call = bindings.call_at(program.sources, at)
    remedies = []
    if at is not None and is_method_call(call, "load_state_dict"):
        args = {"place": place(at), "name": "assign", "value": "False"}
        note = "the load copies the numbers into the parameter that both names stand for"
        remedies.append(Remedy("set_keyword", "load without `assign=True`", "unsafe", note, args))
    weight = likely(0.93)  # that they were one and are two is seen; that they were to stay one is not
    title = f"`assign=True` parts tied weights: {names}"
    text = "With `assign=True` each loaded name gets a new parameter of its own. The optimizer steps these apart."
    spans = span_of("cause", at, "gives each name its own parameter")
    because = f"before this load {names} were one parameter; at the first step of "
    because += f"{optimizer_of(program.optimizers, sign)} it held one for each"
    return Finding(*weight, title, text, spans, remedies=tuple(remedies), because=because)


def _replaced(program: Program, sign: Sign) -> Finding | None:
    """Other parameters were put into the optimizer between the backward call and its step, without a gradient."""
    sources, step, call = program.sources, innermost_user(sign.stack), innermost_user(sign.other)
    if step is None or call is None:
        return None
    writes, leading = regrouping(sources, step, call)
    name, whose = optimizer_of(program.optimizers, sign), folded(sign.parameters) or "its parameters"
    remedies = []
    if leading:
        args = {"place": place(step), "before": place(leading[0]), "for_value": True}
        note = f"{name} steps by these gradients before {whose} are replaced"
        remedies.append(Remedy("move_statement", "step before the parameters are replaced", "unsafe", note, args))
    weight = likely(0.93)  # that no step uses them is seen; that one should is not
    title = f"{whose}: replaced after backward, so the step finds no gradient"
    text = "The gradients stay with the parameters that were there at the backward call. A step skips every parameter "
    text += "whose `.grad` is None. Replace them after the step, or give the new ones the gradients too."
    spans = (
        *(span("cause", f, "replaces them after the backward call") for f in leading[-1:]),
        span("related" if leading else "cause", step, "finds no gradient for the new ones"),
        *(span("related", f, f"puts new parameters into {name}") for f in writes[:MOST_WRITES]),
        span("related", call, "gives gradients to the old ones"),
    )
    because = f"at {sign.count} steps {name} held others than at the backward call before; the old ones were in no "
    because += "optimizer, and the new ones had no gradient"
    return Finding(*weight, title, text, spans, remedies=tuple(remedies), because=because)


def _taken_back(program: Program, sign: Sign) -> Finding:
    """The optimizer steps copies from before a load, which are written into the model after the step."""
    name, whose = optimizer_of(program.optimizers, sign), folded(sign.parameters) or "the model"
    weight = likely(0.93)  # that the values are gone is seen; that they were to stay is not
    title = f"what is loaded into {whose} is gone after the first step"
    text = "The optimizer steps copies that were made before the load. After the step they are written into the model, "
    text += "over what was loaded. Load into these copies as well, or make the optimizer after the load."
    optimizer = optimizer_with(program.optimizers, sign.optimizer)
    making = optimizer.stack if optimizer is not None else []
    level = level_of(making, sign.stack)
    remedies = []
    if level is not None and level[0].start < level[1].start:
        args = {"place": place(level[0]), "after": place(level[1]), "for_value": True}
        note = f"{name} begins with copies of what was loaded"
        remedies.append(Remedy("move_statement", "make the copies after the load", "unsafe", note, args))
    spans = (
        *span_of("cause", sign.stack, "loads into the model, and not into the optimizer's copies"),
        *span_of("related", making, f"{name} gets its copies"),
    )
    because = f"after the first step of {name}, {whose} had the values of before the load again, up to the step itself"
    return Finding(*weight, title, text, spans, remedies=tuple(remedies), because=because)


def _root(names: list[str]) -> str:
    return names[0].split(".")[0]


def _remedy(sources: SourceTexts, making: Made, change: ast.stmt, name: str, whose: str) -> list[Remedy]:
    between, first = making.behind[: making.behind.index(change)], making.gathering()
    using = [s for s in between if any(bindings.text_of(n) == name for n in each(s, ast.expr))]
    here = place(bindings.frame_of(sources, making.file, change))
    note = f"`{name}` updates {whose}"
    if first is not making.statement or any(_mentions(n, name) for s in using for n in walked(s)):
        # A scheduler, say, or a list of groups, would be left with the old ones.
        before = {"place": here, "before": place(bindings.frame_of(sources, making.file, first))}
        what = f"`{name}` is made" if first is making.statement else "the parameters are gathered"
        return [Remedy("move_statement", f"do this before {what}", "unsafe", note, before)]
    if using:
        args = {"place": here, "statement": bindings.text_of(making.statement)}
        return [Remedy("add_statement", f"make `{name}` again after this", "unsafe", note, args)]
    moved = {"place": place(making.frame(sources)), "after": here, "for_value": True}
    return [Remedy("move_statement", f"make `{name}` after this", "unsafe", note, moved)]


def _mentions(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(
        any(bindings.text_of(a) == name for a in n.args) for n in each(node.value, ast.Call)
    )
