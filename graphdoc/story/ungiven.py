"""Telling parameters that no optimizer was given: forgotten, unfrozen or made too late, another network's instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from graphdoc.evidence import Evidence, Frame, Sign, SourceTexts, optimizer_with
from graphdoc.finding import LIST, Finding, Remedy, each_once, edit_at, remedy_at, together
from graphdoc.model import Span
from graphdoc.program import bindings
from graphdoc.program.gathered_parameters import (
    Collected,
    OneShot,
    asks_for_gradient,
    iterators_given,
    may_give,
    never_given,
    put_into_groups,
)
from graphdoc.program.learning import switches, taken_by_flag, unfrozen_behind
from graphdoc.program.name_usage import bound_over_parameters
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import Made, made
from graphdoc.program.parameter_paths import within
from graphdoc.program.proof import Proof, likely, name_of, possible
from graphdoc.program.spans import innermost_user, place, span, span_of, where
from graphdoc.program.tracker import one_return
from graphdoc.source.module import each, is_method_call, receiver_of
from graphdoc.source.paths import only, path_of
from graphdoc.source.scopes import fresh_name
from graphdoc.story.wording import folded, listing, opening, optimizer_of, shared_path

# Telling parameters that get gradients and are in no optimizer, where nothing else says that they should be.


def in_no_optimizer(program: Program, sign: Sign) -> Finding:
    """A weak finding: a network may be left as it is on purpose, and the run cannot tell."""
    name, whose = (
        optimizer_of(program.optimizers, sign),
        folded(sign.parameters, beside=program.names),
    )
    weight = possible(0.4)  # so is every network that is left alone on purpose
    title = f"no optimizer holds {whose}, which get gradients"
    text = f"{opening(name)} steps other parameters of the same loss. If these are meant to learn, give them to it; if "
    text += "not, `requires_grad_(False)` says so and saves their gradients."
    return Finding(*weight, title, text, ungiven_places(program, sign, whose), because=unused_gradients(sign, whose))


def weak_signs(evidence: Evidence) -> tuple[str, ...]:
    """One line on what is no finding by itself, for a run of which nothing else is told: its silence would say that
    nothing is wrong."""
    signs = evidence.signs
    zero = next((s for s in signs if s.kind == "zero-loss"), None)
    if zero is not None:
        return (
            f"the loss at {where(innermost_user(zero.stack))} is 0 in each of {zero.count} backward calls, and its "
            "gradients are not. That is right for ratios and centred advantages; such a value shows no progress.",
        )
    unheld = next((s for s in signs if s.kind == "suspect-ungiven" and s.parameters), None)
    if unheld is None:
        return ()
    whose = folded(unheld.parameters, beside=(p.name for p in evidence.parameters))
    return (f"no optimizer uses the gradients of {whose}. If one should, `graphdoc run --audit all` tells more.",)


def ungiven_places(program: Program, sign: Sign, whose: str) -> tuple[Span, ...]:
    """Where the optimizer is made without them, if that is known, and what gives them gradients."""
    name = optimizer_of(program.optimizers, sign)
    optimizer = optimizer_with(program.optimizers, sign.optimizer)
    making = made(program.sources, optimizer)
    seen = making.frame(program.sources) if making else innermost_user(optimizer.stack if optimizer else ())
    return (
        *span_of("cause", seen, f"{name} is not given them"),
        *span_of("related" if seen else "cause", sign.stack, f"gives gradients to {whose}"),
    )


def unused_gradients(sign: Sign, whose: str) -> str:
    """The sentence of evidence of parameters that get gradients and are in no optimizer."""
    return (
        f"{whose} got gradients in {sign.count} backward calls, no optimizer holds them, and nothing else has "
        "changed them"
    )


# Telling a group of parameters that was filled for an optimizer and never handed over.


def never_handed(program: Program, sign: Sign) -> Finding | None:
    """The finding; None where no forgotten group explains that these parameters are in no optimizer."""
    loose = set(sign.parameters)
    others = [p.name for p in program.parameters if not p.buffer and p.name not in loose]
    found = never_given(program.sources, sign.parameters, others)
    if found is None:
        return None
    whose, name = folded(found.parameters, beside=program.names), optimizer_of(program.optimizers, sign)
    weight = likely(0.92)  # that nobody trains them is seen; that somebody should is not
    title = f"no optimizer holds {whose}: `{found.name}` collects them, and nothing reads it"
    text = f"{opening(name)} steps other parameters of the same loss. What is collected here is handed to nobody, so "
    text += "no step changes these."
    spans = (
        span("cause", found.filled, "collected here, and not used any more"),
        *span_of("related", sign.stack, f"gives gradients to {whose}"),
    )
    remedies = _remedies(found, name, whose)
    return Finding(*weight, title, text, spans, remedies=remedies, because=unused_gradients(sign, whose))


def written_nowhere(program: Program, sign: Sign) -> Finding | None:
    """The program updates them itself, in a loop that binds its variable anew and writes into none of them."""
    found = bound_over_parameters(program.sources, sign.parameters, program.names)
    if found is None:
        return None
    at, node, owner = found
    whose, code = folded(sign.parameters, beside=program.names), f"{bindings.text_of(node.targets[0])} = …"
    note = f"{whose} {'gets' if len(sign.parameters) == 1 else 'get'} these values"
    weight = likely(0.93)  # that they never change is seen; that this loop is run is not
    title = f"`{code}` changes no parameter of `{owner}`: it binds the loop's name"
    text = "An assignment to a name says what the name stands for from here on. The parameter that it stood for keeps "
    text += "its values. `copy_()` writes into it."
    spans = (
        span("cause", at, "binds the name of the loop anew, and nothing reads it"),
        *span_of("related", sign.stack, f"gives gradients to {whose}, which no optimizer holds"),
    )
    remedies = remedy_at(at, "rewrite", "write into the parameter", "unsafe", note, pairs=_WRITTEN)
    because = f"{unused_gradients(sign, whose)}; no statement reads the name after it is bound"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


def _remedies(found: Collected, name: str, whose: str) -> tuple[Remedy, ...]:
    if not found.handed or found.following is None:
        return ()
    title, note = f"hand over this group too: `{found.handed}`", f"{name} updates {whose} as well"
    return remedy_at(found.following, "add_statement", title, "unsafe", note, statement=found.handed, before=True)


# Telling an optimizer that was given a network which another one has, in the place of its own.


def given_another(program: Program, sign: Sign) -> Finding:
    """The finding for a ``passed-by`` sign."""
    name, whose = optimizer_of(program.optimizers, sign), folded(sign.parameters, beside=program.names)
    held = [p.name for p in program.parameters if sign.optimizer in p.owners]
    weight = likely(0.94)  # that no step uses their gradients is seen; that this one is to is read off the order
    title = f"{name} was given {folded(held)}, and no optimizer holds {whose}"
    text = f"This loss gives gradients to {whose} and to nothing else, and {name} steps after it. What {name} holds "
    text += "another optimizer steps as well, and no optimizer uses these gradients."
    spans = ungiven_places(program, sign, whose)
    remedies = _given_instead(program, sign, held, f"{name} updates {whose}")
    return Finding(*weight, title, text, spans, remedies=remedies, because=unused_gradients(sign, whose))


def _given_instead(program: Program, sign: Sign, held: list[str], note: str) -> tuple[Remedy, ...]:
    making = made(program.sources, optimizer_with(program.optimizers, sign.optimizer))
    own, other = (shared_path(names)[:-1].rpartition(".") for names in (held, sign.parameters))
    calls = each(making.statement.value, ast.Call) if making is not None else ()
    given = only([bindings.text_of(receiver_of(c)) for c in calls if is_method_call(c, "parameters")])
    if making is None or given is None or own[0] != other[0] or not own[2] or not other[2]:
        return ()
    around, dot, last = given.rpartition(".")
    if last != own[2]:
        return ()
    args = {"place": place(making.frame(program.sources)), "operand": given, "name": f"{around}{dot}{other[2]}"}
    return (Remedy("use_instead", f"give it the parameters of `{args['name']}`", "unsafe", note, args),)


# Telling an iterator of parameters that was used up before the call that was to go through it.

_WHY = (
    "`parameters()`, `filter()` and generator expressions give an iterator. Who goes through it first uses it up, and "
    "everybody after that finds nothing in it. No error tells, because an empty iterator is a valid one."
)


def nothing_left(
    found: OneShot, call: Frame, title: str, effect: str, because: str, more: tuple[Span, ...] = ()
) -> Finding:
    """The finding: the iterator's own place is the one to change, ``call`` is where nothing was left of it."""
    note = f"every loop over `{found.name}` then finds all of it"
    spans = (span("cause", found.frame, "can be gone through only once"), span("related", call, effect), *more)
    fix = f"keep a list in `{found.name}`, not an iterator"
    remedies = remedy_at(found.frame, "rewrite", fix, "unsafe", note, pairs=LIST)
    return Finding(*Proof.SOURCE.at(0.93), title, _WHY, tuple(spans), remedies=remedies, because=because)


def walked(program: Program, sign: Sign) -> Finding:
    """The finding for an iterator that the program put into a group itself: a step has gone through it."""
    name, groups, count = optimizer_of(program.optimizers, sign), sign.facts["groups"], len(sign.facts["empty"])
    places = put_into_groups(program.sources)
    edits = [edit_at("rewrite", at, pairs=LIST) for at in places]
    note = f"each step of {name} then updates all of them"
    spans = (
        *(span("cause", at, "can be gone through only once") for at in places[:3]),
        *span_of("related" if places else "cause", sign.stack, "finds no parameter there"),
    )
    which = "a group" if count == groups == 1 else f"{count} of {groups} groups"
    return Finding(
        *Proof.STEPS.at(0.95),
        f"{name} has an iterator in {which}: it updates nothing of it",
        _WHY,
        spans,
        remedies=tuple(together(edits, "put a list there, not an iterator", "unsafe", note)),
        because="the step before had gone through the same iterator, so nothing was left of it",
    )


def spent(program: Program, sign: Sign) -> Finding | None:
    """The finding for groups whose generators had ended before the optimizer got them; None where nothing that they
    may have given gets gradients and has no optimizer: they may have been rightly empty."""
    begun, optimizer = sign.facts.get("spent", []), optimizer_with(program.optimizers, sign.optimizer)
    loose = [
        n for s in program.signs if s.kind == "suspect-ungiven" for n in s.parameters if s.optimizer == sign.optimizer
    ]
    if not begun or not loose:
        return None
    known = list(iterators_given(program.sources))
    ended = {(f["file"], f["line"]) for f in begun}
    own = [(at, value) for _, at, value in known if isinstance(value, ast.GeneratorExp) and (at.file, at.line) in ended]
    others = len({f["file"] for f in begun} - {at.file for at, _ in own})
    fitting = [(at, value) for _, at, value in known if (at, value) in own or (others and is_method_call(value))]
    rest = [p.name for p in program.parameters if not p.buffer and p.name not in loose]
    if not any(may_give(value, loose, rest) for _, value in fitting):
        return None
    whose = folded(loose, beside=(p.name for p in program.parameters if p.owners))
    name = optimizer_of(program.optimizers, sign)
    edits = [edit_at("rewrite", at, pairs=LIST) for at, _ in fitting]
    count, groups = len(begun), sign.facts["groups"]
    weight = likely(0.93)  # that they had ended is seen; what they would have given is not
    title = f"{count} of {groups} groups of {name} {'is' if count == 1 else 'are'} empty: the iterators were used up"
    spans = (
        *(span("cause", at, "can be gone through only once") for at, _ in fitting[:3]),
        *(span_of("related", optimizer.stack, "had been gone through before") if optimizer is not None else ()),
    )
    remedies = tuple(together(edits, "keep lists, not iterators", "unsafe", f"{name} steps {whose}"))
    because = f"the generators had ended when {name} was given them; {unused_gradients(sign, whose)}"
    return Finding(*weight, title, _WHY, spans, remedies=remedies, because=because)


# Telling parameters that are unfrozen when their optimizer has been made without them.


def unfrozen_late(program: Program, sign: Sign) -> Finding | None:
    """The finding; None where the source has no such order."""
    name, whose = name_of(program.optimizers, sign), folded(sign.parameters, beside=program.names)
    optimizer, frozen = optimizer_with(program.optimizers, sign.optimizer), bool(sign.facts.get("frozen"))
    found = unfrozen_behind(program.sources, optimizer, sign.parameters, frozen)
    if found is None:
        return _added_late(program, sign, folded(sign.parameters, beside=program.names))
    making, late = found
    weight = likely(0.92)  # that nobody trains them is seen; that somebody should is the reading of the source
    title = f"no optimizer holds {whose}: they were frozen when `{name}` was made"
    text = f"`{name}` was given only what required gradients then. What is unfrozen later gets gradients that nobody "
    text += "uses. Give the optimizer all parameters: it leaves alone what has no gradient. Or add these with "
    text += "`add_param_group` where they are unfrozen."
    spans = (
        span("cause", making, f"`{name}` takes only what requires gradients now"),
        span("related", late, "unfrozen here, and in no optimizer"),
        *span_of("related", sign.stack, f"gives gradients to {whose}"),
    )
    remedies = tuple(_unfiltered(program.sources, making, name))
    return Finding(*weight, title, text, spans, remedies=remedies, because=unused_gradients(sign, whose))


def _added_late(program: Program, sign: Sign, whose: str) -> Finding | None:
    """Of parameters of a module all of whose trainable ones the optimizer was given: it was made before they were."""
    making = made(program.sources, optimizer_with(program.optimizers, sign.optimizer))
    module = taken_by_flag(program.sources, making) if making is not None else ""
    if making is None or not within(module, program.names).keys() >= {*sign.parameters}:
        return None
    name = name_of(program.optimizers, sign)
    title = f"make `{name}` after the last parameters are added to `{module}`"
    weight = likely(0.92)  # that nobody trains them is seen; that somebody should is the reading of the source
    headline = f"no optimizer holds {whose}: `{name}` was made before them"
    text = f"`{name}` was given the parameters of `{module}` that required gradients then. Those that are added, or "
    text += "unfrozen, later get gradients that nobody uses."
    spans = (
        span("cause", making.frame(program.sources), f"`{name}` takes what `{module}` has now"),
        *span_of("related", sign.stack, f"gives gradients to {whose}"),
    )
    remedies = (Remedy("argument", title, "display", f"`{name}` then holds all that is to learn."),)
    return Finding(*weight, headline, text, spans, remedies=remedies, because=unused_gradients(sign, whose))


_WRITTEN = [["{p} = {new}", "{p}.detach().copy_({new})"]]
_UNFILTERED = [
    [pattern, "{all}"]
    for pattern in ("filter({_}, {all})", "[{p} for {p} in {all} if {_}]", "({p} for {p} in {all} if {_})")
]


SEVERAL = 3
"""Loops and conditions of a comprehension that does more than ask for the flag."""


def _unfiltered(sources: SourceTexts, making: Frame, name: str) -> list[Remedy]:
    """Hand over what the optimizer's statement leaves out by the flag."""
    statement = bindings.statement_at(sources, making)
    edits: list[dict[str, Any]] = [
        edit_at("rewrite", bindings.frame_of(sources, making.file, node), pairs=[*_UNFILTERED, *_unasked(node)])
        for node in each(statement, ast.Call, ast.ListComp, ast.GeneratorExp)
        if any(n.attr == "requires_grad" for asked in _conditions(node) for n in each(asked, ast.Attribute))
    ]
    note = f"`{name}` leaves alone what has no gradient, and updates it from when it has one"
    return together(edits, f"give `{name}` those too that are frozen at first", "unsafe", note)


def _conditions(node: ast.expr) -> list[ast.expr]:
    """Those by which a comprehension or a ``filter`` chooses."""
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return [test for loop in node.generators for test in loop.ifs]
    return node.args[:1] if isinstance(node, ast.Call) and bindings.text_of(node.func) == "filter" else []


def _unasked(node: ast.expr) -> list[list[str]]:
    """A comprehension of several loops or conditions as it is, and without the condition that is the flag alone."""
    other = ast.parse(ast.unparse(node), mode="eval").body
    loops = list(each(other, ast.comprehension))
    if len(loops) + len(_conditions(other)) < SEVERAL:
        return []
    for loop in loops:
        loop.ifs = [test for test in loop.ifs if not asks_for_gradient(test)]
    return [[ast.unparse(node), ast.unparse(other)]]


# Telling parameters that the first forward makes, when their optimizer has been made without them.


def made_late(program: Program, sign: Sign) -> Finding | None:
    """The finding; None where the run has not seen all of these made behind the optimizer, or it was given parts of
    the model by name in which they do not lie."""
    optimizer = optimizer_with(program.optimizers, sign.optimizer)
    born = [[Frame(**f) for f in frames] for frames in sign.facts.get("born", [])]
    making = made(program.sources, optimizer)
    if not born or optimizer is None or (making is not None and _is_of_other_parts(program, sign, making)):
        return None
    places = [kept_at(program.sources, frames) for frames in born]
    name, whose = name_of(program.optimizers, sign), folded(sign.parameters, beside=program.names)
    weight = likely(0.92)  # that nobody trains them is seen; that somebody should is not
    title = f"no optimizer holds {whose}: a forward makes them after `{name}` was made"
    text = f"`{name}` was given what the model had then. What a forward makes later gets gradients that nobody uses. "
    text += "Make it in `__init__`. Its values can still be set in the first forward, under `no_grad`."
    spans = (
        *(span("cause", at, "makes what is to learn, too late") for at in each_once(places)[:2]),
        *span_of(
            "related", making.frame(program.sources) if making else optimizer.stack, f"`{name}` takes what there is now"
        ),
        *span_of("related", sign.stack, f"gives gradients to {whose}"),
    )
    first = f"make them in `__init__`, or run one forward before `{name}` is made"
    remedies = (Remedy("argument", first, "display", f"`{name}` then holds all that is to learn."),)
    return Finding(*weight, title, text, spans, remedies=remedies, because=unused_gradients(sign, whose))


def _is_of_other_parts(program: Program, sign: Sign, making: Made) -> bool:
    """Whether what the optimizer was given has names by which the run knows all that it holds, and none of these."""
    given = each(making.statement.value, ast.Call)
    parts = [bindings.text_of(n.func.value) for n in given if is_method_call(n, "parameters", "named_parameters")]
    held = {p.name for p in program.parameters if not p.buffer and sign.optimizer in p.owners}
    lying = {name for part in parts for name in within(part, program.names)}
    return bool(held) and held <= lying and lying.isdisjoint(sign.parameters)


def kept_at(sources: SourceTexts, frames: list[Frame]) -> Frame:
    """What the innermost of these lines keeps in an attribute or a container; else the innermost line."""
    for frame in reversed(frames):
        statement = bindings.statement_at(sources, frame)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute | ast.Subscript):
            return bindings.frame_of(sources, frame.file, statement.value)
    return frames[-1]


# Telling parameters that were left out of an optimizer which has others of the same layers.


def beside_in_layer(program: Program, sign: Sign) -> Finding | None:
    """The finding; None unless each lies in a layer of which the optimizer holds another parameter, a third one of
    these layers is frozen, so that the program says by the flag what is not to learn, and it asks by name for these
    others and for what no parameter is called."""
    layers = {name.rpartition(".")[0] for name in sign.parameters}
    inside = [
        p for p in program.parameters if not p.buffer and p.name.startswith(tuple(f"{layer}." for layer in layers))
    ]
    held = [p.name for p in inside if sign.optimizer in p.owners and p.name.rpartition(".")[0] in layers]
    frozen = [p.name for p in inside if not p.requires_grad]
    making = made(program.sources, optimizer_with(program.optimizers, sign.optimizer))
    if making is None or not frozen or "" in layers or {n.rpartition(".")[0] for n in held} != layers:
        return None
    asked = [texts for texts in _asked_together(program.sources) if any(t in n for t in texts for n in held)]
    vain = next((t for texts in asked for t in texts if not any(t in n for n in program.names)), None)
    if vain is None:
        return None  # by choice one factor of an adapter may stay as it was drawn
    name, whose = optimizer_of(program.optimizers, sign), folded(sign.parameters, beside=(*held, *frozen))
    weight = likely(0.9)  # that nobody trains them is seen; that they are to learn is the reading of the flags
    title = f"{name} is given {folded(held, beside=(*sign.parameters, *frozen))}, and not {whose} of the same layers"
    text = f"No optimizer holds {whose}. What is not to learn in these layers is frozen by `requires_grad`, and these "
    text += f"are not. The program asks for `{vain}`, and no parameter is called so."
    return Finding(*weight, title, text, ungiven_places(program, sign, whose), because=unused_gradients(sign, whose))


def _asked_together(sources: SourceTexts) -> Iterator[list[str]]:
    """Texts of which a condition takes one or the other: ``"a" in name or "b" in name``, ``("a", "b")``."""
    for _, node in bindings.everywhere(sources, ast.BoolOp, ast.Tuple, ast.List):
        asked = each(node, ast.Constant) if isinstance(node, ast.BoolOp) else node.elts
        texts = [e.value for e in asked if isinstance(e, ast.Constant) and isinstance(e.value, str)]
        if len(texts) > 1:
            yield texts


# Telling parameters of other names than those by which an optimizer's groups were filled.


def other_names(program: Program, sign: Sign) -> Finding | None:
    """The finding; None unless one loop over a model's modules collects parameters by the names of attributes, all that
    the optimizer holds are called so, and none of these are."""
    held = {p.name.rpartition(".")[2] for p in program.parameters if not p.buffer and sign.optimizer in p.owners}
    loose = {name.rpartition(".")[2] for name in sign.parameters}
    found = [one for one in _filled_by_name(program.sources) if held and held <= set(one[2])]
    if len(found) != 1 or not loose or loose & set(found[0][2]):
        return None
    file, loop, groups, model = found[0]
    name, whose = optimizer_of(program.optimizers, sign), folded(sign.parameters, beside=program.names)
    words, at = listing([f"`.{n}`" for n in groups]), bindings.frame_of(program.sources, file, loop)
    group = groups.get("bias") or next(iter(groups.values()))
    kept = fresh_name(bindings.source_at(program.sources, at), "p")
    test = f'name.rpartition(".")[2] not in ({", ".join(repr(n) for n in groups)})'.replace("'", '"')
    text = f"{group} += [{kept} for name, {kept} in {model}.named_parameters() if {test}]"
    note = f"{name} updates {whose} as well"
    args = {"place": place(at), "statement": text, "before": False}
    open_ = "in which group, with or without weight decay, they belong, is for you to say"
    weight = likely(0.9)  # that nobody trains them is seen; that the loop is to find all is what it is written for
    title = f"the groups of {name} hold {words} of each module, and not {whose}"
    text = "A `Parameter` of another name is in no group: it gets gradients, and no step changes it."
    spans = (
        span("cause", bindings.frame_of(program.sources, file, loop.iter), f"of each, {words} are taken alone"),
        *span_of("related", sign.stack, f"gives gradients to {whose}"),
    )
    remedies = (Remedy("add_statement", f"add the others to `{group}`", "unsafe", note, args, open_),)
    return Finding(*weight, title, text, spans, remedies=remedies, because=unused_gradients(sign, whose))


def _filled_by_name(sources: SourceTexts) -> Iterator[tuple[str, ast.For, dict[str, str], str]]:
    """Loops over a model's modules that put ``m.weight`` and the like into lists: the file, the loop, the list of each
    attribute, and the model."""
    for file, loop in bindings.everywhere(sources, ast.For):
        if not is_method_call(loop.iter, "named_modules", "modules") or not isinstance(loop.iter.func.value, ast.Name):
            continue
        one = {n.id for n in each(loop.target, ast.Name)}
        groups = {
            value.attr: bindings.text_of(call.func.value)
            for call in each(loop, ast.Call)
            if is_method_call(call, "append") and len(call.args) == 1
            for value in call.args
            if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id in one
        }
        if len(groups) > 1:
            yield file, loop, groups, loop.iter.func.value.id


# Telling a part of a model that was left out of an optimizer which was given the other parts by name.


def part_left_out(program: Program, sign: Sign) -> Finding | None:
    """The finding; None unless the optimizer was given the parts beside this one each by its name, and the program
    freezes with the flag what it does not train: this is new, and not frozen."""
    making = made(program.sources, optimizer_with(program.optimizers, sign.optimizer))
    if making is None or sign.facts.get("loaded") or not sign.parameters:
        return None
    root, _, part = shared_path(sign.parameters).removesuffix(".").rpartition(".")
    value = making.statement.value
    at, call = one_return(program.sources, value) or (making.frame(program.sources), value)
    target = bindings.text_of(making.statement.targets[0])
    if isinstance(call, ast.Name):
        target = call.id
        at = next((place for place, _ in bindings.assignments(program.sources, at, target)), at)
    scope = bindings.function_at(program.sources, at) or making.statement
    lists = [n.func.value for n in each(scope, ast.Call) if is_method_call(n, "parameters", "named_parameters")]
    named = {part: whole for node in lists for whole, _, part in [path_of(node).rpartition(".")] if part}
    below = [p for p in program.parameters if p.name.startswith(f"{root}.")]
    beside = [(p.name.removeprefix(f"{root}.").partition(".")[0], p) for p in below]
    held = {name for name, p in beside if sign.optimizer in p.owners}
    given = {name: whole for name, whole in named.items() if name in held}
    freezes = any(switches(n) is False for _, n in bindings.everywhere(program.sources, ast.stmt))
    if not root or len(given) < 2 or not named.keys() <= {n for n, _ in beside} - {part} or not freezes:
        return None
    name, whose = name_of(program.optimizers, sign), folded(sign.parameters, beside=program.names)
    wholes = sorted(set(given.values()))
    statement = f'{target}.add_param_group({{"params": {wholes[0]}.{part}.parameters()}})'
    args = {"place": place(at), "statement": statement}
    open_ = "which learning rate this part is to have, is for you to say"
    remedy = Remedy("add_statement", f"give it `{part}` too", "unsafe", f"`{name}` steps {whose}", args, open_)
    weight = likely(0.9)  # that nobody trains it is seen; that it is to learn is the reading of the source
    return Finding(
        *weight,
        f"`{name}` is given {listing([f'`{p}`' for p in sorted(given)])} of `{root}`, and not `{part}`",
        f"{whose} began with random values and keeps them: no optimizer holds this part. What is not to learn is "
        "frozen by `requires_grad` in this program, and this is not.",
        (span("cause", at, f"`{part}` is in no group"), *span_of("related", sign.stack, f"gives gradients to {whose}")),
        remedies=(remedy,) if len(wholes) == 1 else (),
        because=unused_gradients(sign, whose),
    )
