"""GD715: what is computed from an optimizer's parameters goes into no loss."""

from __future__ import annotations

import ast
from typing import Any

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import BESIDE, LEFT_OUT, SO_FAR, UNREAD, Frame, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy, edit_at, remedy_at, together
from graphdoc.program.bindings import assignments, frame_of, function_at, source_at, statement_at, text_of
from graphdoc.program.carried_names import read_behind
from graphdoc.program.custom_functions import (
    Used,
    acts,
    backward_of,
    forward_of,
    inputs_of,
    returned_values,
    takes_ctx,
    used,
)
from graphdoc.program.cuts import given_by_name
from graphdoc.program.name_usage import Kept, bound_anew, kept_as_number, unread_name, unread_result
from graphdoc.program.observed import Program
from graphdoc.program.parameter_paths import within
from graphdoc.program.proof import first_sign, likely
from graphdoc.program.spans import conditions_on, innermost_user, loop_of, of_sign, place, span, span_of
from graphdoc.program.written_out import call_made, written_out
from graphdoc.source.module import each
from graphdoc.source.paths import last_word, names_read, path_of, plain_names
from graphdoc.source.scopes import fresh_name, own_nodes
from graphdoc.story.wording import folded, opening, optimizer_of

PAGE = Page(
    code="GD715",
    title="What an optimizer's parameters compute goes into no loss",
    families=("silent",),
    what_happened="""\
A network runs in every iteration, its optimizer steps, and no loss depends on what it gives. The name of its loss is
bound to another one before `backward()`, a term was forgotten in the sum, or the loss takes another output. Or a layer
inside of a network runs, and its result is bound to a name that nobody reads: a loop over a list binds its variable
again, and the list still has the old values. Or each round of a loop binds the loss anew, and only the last is used.
The parameters never get a gradient and keep their initial values. Or a loss of its own, or a sum of the loss and
another term, is only logged, and `backward()` is called on the loss: the other one trains nothing. Or
`Balance.apply(weights, loss)` stands alone on a line: a `Function` acts on the backward by what it returns.""",
    why="""\
`backward()` reaches what its loss was made of and nothing else. A result of which no loss is made is no error: its
graph is let go with it. `step()` leaves out every parameter whose `.grad` is None.""",
    example="""\
loss = F.mse_loss(decoder(code), x)
loss = F.cross_entropy(classifier(code), labels)  # the first one is gone
optimizer.zero_grad()
loss.backward()
optimizer.step()""",
    use_instead="""\
loss = F.mse_loss(decoder(code), x)
loss = loss + F.cross_entropy(classifier(code), labels)
optimizer.zero_grad()
loss.backward()
optimizer.step()""",
    fix_safety="""\
Display only for what is no loss yet. A loss that is only logged is added to the other one, which is unsafe: how much it
is to count is for the author to say. If the network is not to learn in this run, leave it out of the optimizer. Results
of a loop that are collected in a list are unsafe: what comes after the loop uses other values.""",
    not_this="""\
- The loss depends on them and they get no gradient: `cut-by-detach`, `cut-by-conversion`, `cut-by-no-grad`,
  `nondifferentiable-op`.
- The whole optimizer never finds a gradient: `steps-without-gradient`.
- The loss reaches them and no optimizer has them: `parameters-never-reached`.""",
    references=(links.OPTIM, "torch.Tensor.backward"),
)


def recognise(program: Program) -> Finding | None:
    """Measured: no loss moves with them. Nothing reads the name that their result is bound to, or a loop binds
    it anew; or the optimizer was given them by name, or in a group of their own: they were to learn."""
    beside = _beside_the_loss(program) or _dropped(program)
    sign = first_sign(program.signs, LEFT_OUT)
    if beside is not None or sign is None:
        return beside
    lost, kept = _lost(program, sign), kept_as_number(program.sources, sign.stack)
    if lost is not None or (kept is not None and kept.added):
        return lost  # or an option leaves it out of this run
    meant = sign.facts["apart"] or given_by_name(program, sign)
    return _only_logged(program, sign, kept) or (_told(program, sign) if meant else None)


def _lost(program: Program, sign: Sign) -> Finding | None:
    """Where the source shows how the result is lost: its name is never read, or each round of a loop binds it anew."""
    bound = unread_result(program.sources, sign.stack, sign.other)
    if bound is not None and not _gives_otherwise(program, sign, bound[0]):
        return _never_read(program, sign, *bound)
    again = bound_anew(program.sources, sign.stack, sign.other)
    return _last_round(program.sources, sign, *again) if again is not None else None


def _beside_the_loss(program: Program) -> Finding | None:
    """Measured: what a sum adds to a loss has a gradient, and the loss alone is differentiated, in the whole run."""
    sources, sign = program.sources, first_sign(program.signs, BESIDE)
    if sign is None or not any(s.kind == "suspect-beside" and SO_FAR not in s.facts for s in program.signs):
        return None
    call, differentiated = call_made(sources, sign.other, values=False) or (None, None)
    made, kept = innermost_user(sign.stack), kept_as_number(sources, sign.stack)
    if kept is None or kept.added or call is None or made is None or not isinstance(differentiated, ast.Call):
        return None
    bound, name, read, _ = kept
    loss = _loss_in(differentiated)
    inside = bound.in_function_of(call)
    if inside and _is_an_option(sources, bound, call, loss):
        return None
    whose, late = folded(sign.parameters), name == loss and inside
    title = f"`{name}` is never differentiated: `backward()` runs on `{loss}` alone"
    note = f"the other terms of `{name}` train {whose} as well"
    remedies = [*remedy_at(call, "use_instead", f"differentiate `{name}`", "unsafe", note, operand=loss, name=name)]
    if late:
        title = f"terms that are added to `{name}` after `backward()` train nothing"
        added = {"place": place(bound), "statement": text_of(differentiated), "before": False}
        edits = [edit_at("delete_statement", call), {"kind": "add_statement", "args": added}]
        remedies = [Remedy("several", f"differentiate `{name}` after the sum", "unsafe", note, {"edits": edits})]
        if loop_of(sources, bound) != loop_of(sources, call):
            remedies.clear()  # it would run once for each term
    elif not inside:  # the function that adds up returns the loss alone
        title = f"`{name}` is only read as a number: `backward()` gets none of its other terms"
        remedies = together(_returned_instead(sources, bound, name), f"return `{name}`", "unsafe", note)
    elif not (name.isidentifier() and bound.line < call.line):
        remedies.clear()
    where = f"`{loss}`, and `backward()` runs on `{loss}`" if inside else "what is returned"
    return Finding(
        0.75,
        # That no call goes through it is seen, not that one should: who reads it as a number may want just that.
        "likely" if late or not read or sign.facts["weighed"] else "possible",
        title,
        f"`backward()` runs on `{loss}` before these terms are added: no gradient contains them."
        if late
        else f"`{name}` adds terms to {where}: no gradient contains these terms.",
        (
            span("cause", call, f"differentiates `{loss}`" + " before the sum" * late),
            span("cause", made, "adds what no backward call goes through"),
        ),
        remedies=tuple(remedies),
        because=f"at {sign.count} steps the terms beside `{loss}`, differentiated by themselves, had a gradient for "
        f"{whose}; no backward call gives it",
    )


def _is_an_option(sources: SourceTexts, bound: Frame, call: Frame, loss: str) -> bool:
    """Whether other statements give the loss all that the sum is computed from: an option has left a part of it out."""
    added, known = statement_at(sources, bound), set[str]()
    for at, value in assignments(sources, call, loss):
        known |= names_read(written_out(sources, at, value)) if at.line != bound.line else set()
    return isinstance(added, ast.Assign) and names_read(written_out(sources, bound, added.value)) <= known


def _returned_instead(sources: SourceTexts, bound: Frame, name: str) -> list[dict[str, Any]]:
    """The edits by which every return that comes after a sum gives back the sum in the place of its one summand."""
    source, function = source_at(sources, bound), function_at(sources, bound)
    summands = names_read(statement_at(sources, bound) or ast.Pass())
    found = []
    for returned in each(function, ast.Return) if function is not None else ():
        texts = [source.segment(v) for v in returned_values(returned)]
        if summands.intersection(texts) and returned.lineno > bound.line:
            values = [name if t in summands else t for t in texts]
            found.append(edit_at("return_values", frame_of(sources, bound.file, returned), values=values))
    return found


def _loss_in(call: ast.Call) -> str:
    """What a call differentiates; of what a scaler has scaled, the loss itself."""
    first = (call.args or [getattr(call.func, "value", call.func)])[0]
    scaled = first.args if isinstance(first, ast.Call) and last_word(first.func) == "scale" else []
    return text_of([*scaled, first][0])


def _only_logged(program: Program, sign: Sign, kept: Kept | None) -> Finding | None:
    """Measured: these parameters compute a single number of data, alone and with a graph. It is read as a number, and
    nothing else reads it: a metric would be of parameters that learn by a loss."""
    sources = program.sources
    if kept is None or not (kept.read and sign.facts.get("alone")):
        return None
    bound, name, *_ = kept
    whose, weight = folded(sign.parameters), likely(0.75)  # that no loss is made of it is seen; that one should is not
    text = f"`{name}` is computed with its graph in every iteration and read as a number, for a log say. No call "
    text += f"differentiates it, so {whose} keep their first values."
    spans = (
        span("cause", bound, f"nothing but the number of `{name}` is used"),
        *span_of("related", sign.other, f"differentiates a loss without `{name}`"),
    )
    title, because = f"`{name}` is only logged: no loss trains {whose}", _measured(sign, whose)
    return Finding(*weight, title, text, spans, remedies=_added(sources, sign, bound, name), because=because)


def _added(sources: SourceTexts, sign: Sign, bound: Frame, name: str) -> tuple[Remedy, ...]:
    """Add a number to the loss that the next call differentiates, under the conditions on which it is computed."""
    call, differentiated = call_made(sources, sign.other, values=False) or (None, None)
    loss = _loss_in(differentiated) if isinstance(differentiated, ast.Call) else ""
    beside = call is not None and bound.in_function_of(call) and loop_of(sources, bound) == loop_of(sources, call)
    if call is None or not beside or not (loss.isidentifier() and name.isidentifier() and bound.line < call.line):
        return ()
    tests = [text_of(t if holds else ast.UnaryOp(ast.Not(), t)) for t, holds in conditions_on(sources, bound, call)]
    condition = " and ".join(f"({t})" for t in tests) if len(tests) > 1 else "".join(tests)
    added = f"if {condition}:\n    {loss} = {loss} + {name}" if tests else f"{loss} = {loss} + {name}"
    note = f"it trains {folded(sign.parameters)}; give it a factor where it is to count more or less"
    return remedy_at(call, "add_statement", f"add `{name}` to `{loss}`", "unsafe", note, statement=added, before=True)


def _measured(sign: Sign, whose: str) -> str:
    return f"at {sign.count} steps a trial changed {whose}, and no loss changed; none ever had a gradient"


def _dropped(program: Program) -> Finding | None:
    """Measured: a Function is in the graph of no loss. The statement that applies it drops its result, or binds it to a
    name that nobody reads."""
    sources, sign = program.sources, first_sign(program.signs, UNREAD)
    function = next(used(sign.facts), None) if sign is not None else None
    if sign is None or function is None or function.apply is None:
        return None
    statement, name = statement_at(sources, function.apply), unread_name(sources, function.apply)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if acts(sources, function) or (not name and not isinstance(call, ast.Call)):
        return None
    given = _given_back(sources, function, call) if isinstance(call, ast.Call) else ""
    at = place(frame_of(sources, function.apply.file, call)) if call is not None else {}
    edit = {"place": at, "pairs": [["{call}", f"{given} = {{call}}"]]}
    note = f"`{function.name}.backward` runs, and what it adds trains what it is applied to"
    weight = likely(0.9)  # that its backward never runs is seen; that it should is what a Function is written for
    title = f"the result of `{function.name}` is {'never read' if name else 'dropped'}: its backward never runs"
    text = "A Function acts on the backward through the value that it returns. The loss uses another value, in whose "
    text += "graph it is not."
    spans = (
        span("cause", function.apply, f"`{name}` is read by nobody" if name else "the result is dropped"),
        *span_of("related", sign.other, f"does not go through `{function.name}`"),
    )
    remedies = (Remedy("rewrite", f"keep the result in `{given}`", "unsafe", note, edit),) if given else ()
    because = f"at {sign.count} steps it was given what has a graph, and no loss was computed from what it returned"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


def _given_back(sources: SourceTexts, function: Used, call: ast.Call) -> str:
    """The name of the argument that the forward gives back as it is; empty where it computes another value."""
    at = backward_of(sources, function)
    forward = forward_of(sources, *at) if at is not None else None
    returns = [n.value for n in own_nodes(forward) if isinstance(n, ast.Return)] if forward is not None else []
    inputs = inputs_of(forward, takes_ctx(sources, at[0], forward)) if forward is not None and at is not None else []
    names = {n.id for n in returns if isinstance(n, ast.Name)} if len(returns) == 1 else set()
    given = [a for name, a in zip(inputs, call.args, strict=False) if name in names]
    return given[0].id if given and isinstance(given[0], ast.Name) else ""


def _owned(program: Program, sign: Sign, bound: Frame) -> dict[str, str]:
    """Those of the parameters that belong to the module that is called there, by its name; each with that module's."""
    node = statement_at(program.sources, bound)
    called = path_of(node.value.func) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) else ""
    own = within(called, program.names)
    return {name: name.removesuffix(own[name]) for name in sign.parameters if own.get(name)}


def _gives_otherwise(program: Program, sign: Sign, bound: Frame) -> bool:
    """Whether the call whose result goes unread runs a module that learns by what a hook or an attribute keeps of it:
    the loss reaches other parameters of that module."""
    owners = tuple(_owned(program, sign, bound).values())
    return any(name.startswith(owners) for e in program.journal.events for name in e.reaches)


def _never_read(program: Program, sign: Sign, bound: Frame, name: str) -> Finding:
    names = [*_owned(program, sign, bound)] or sign.parameters
    whose, one = folded(names), len(names) == 1
    weight = likely(0.8)  # that nothing is made of the result is seen; what was to be made of it is not
    title = f"the result of {whose} is never read, so {'it' if one else 'they'} never {'learns' if one else 'learn'}"
    text = f"The layers run in every iteration and `{name}` is bound to what they give. No statement reads it before "
    text += "the name is bound again or its function ends, so no loss depends on their parameters."
    spans = (
        span("cause", bound, f"bound to `{name}`, and no statement reads this value"),
        *span_of("related", sign.other, "differentiates a loss that does not depend on it"),
    )
    remedies = _collected(program.sources, bound, name)
    return Finding(*weight, title, text, spans, remedies=remedies, because=_measured(sign, whose))


def _last_round(sources: SourceTexts, sign: Sign, bound: Frame, name: str) -> Finding:
    whose = folded(sign.parameters)
    note = f"every round counts as much as the last one: {whose} get a gradient too"
    loop = loop_of(sources, bound)
    edits = [edit_at("add_statement", loop, statement=f"{name} = 0.0", before=True)] if loop is not None else []
    edits.append(edit_at("rewrite", bound, pairs=[["{sum} = {x}", "{sum} = {sum} + {x}"]]))
    added = together(edits, f"add the rounds up in `{name}`", "unsafe", note) if loop is not None else []
    weight = likely(0.8)  # that no loss depends on them is measured; that the rounds were to be added up is not
    title = f"each round of the loop binds `{name}` anew: only the last one trains"
    text = f"`{name}` is read behind the loop, where it has the value of the last round. What the other rounds "
    text += f"computed is lost, and no loss depends on {whose}."
    spans = (
        span("cause", bound, f"replaces the `{name}` of the round before, which nobody has read"),
        *span_of("related", sign.other, "differentiates a loss that does not depend on it"),
    )
    remedies = tuple(added) if sign.facts.get("number") else ()
    return Finding(*weight, title, text, spans, remedies=remedies, because=_measured(sign, whose))


def _collected(sources: SourceTexts, bound: Frame, name: str) -> tuple[Remedy, ...]:
    """Hand on a list of the results where the name is the variable of a loop over a list that is read after it."""
    source, node = source_at(sources, bound), statement_at(sources, bound)
    loop = source.node_loop(node) if node is not None else None
    if not isinstance(loop, ast.For) or node not in loop.body or name not in plain_names(loop.target):
        return ()
    over = loop.iter
    if isinstance(over, ast.Call) and text_of(over.func) == "enumerate" and over.args:
        over = over.args[0]
    if not isinstance(over, ast.Name) or name in names_read(over):
        return ()
    head, fresh = frame_of(sources, bound.file, loop), fresh_name(source, f"new_{over.id}", f"{name}_list")
    if not read_behind(sources, head, over.id):
        return ()
    edits = [
        edit_at("add_statement", at, statement=text, before=before)
        for at, text, before in (
            (head, f"{fresh} = []", True),
            (bound, f"{fresh}.append({name})", False),
            (head, f"{over.id} = {fresh}", False),
        )
    ]
    note = f"what comes after the loop uses the results, and not what `{over.id}` had before"
    title = f"collect the results in a list, and use it as `{over.id}`"
    return tuple(together(edits, title, "unsafe", note))


def _told(program: Program, sign: Sign) -> Finding:
    whose, name = folded(sign.parameters), optimizer_of(program.optimizers, sign)
    weight = likely(0.6)  # that no loss depends on them is measured; that one should is not
    text = f"{opening(name)} holds {whose}. They compute a result in every iteration, and no loss is made of it. They "
    text += "never get a gradient. Add it to the loss, or leave them out of the optimizer."
    title, passed = f"no loss depends on {whose}, which {name} is to train", "computed here, and no loss is made of it"
    spans = of_sign(sign, passed, "differentiates a loss that does not depend on it")
    return Finding(*weight, title, text, spans, because=_measured(sign, whose))
