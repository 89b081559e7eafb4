"""Telling a missing graph: which cut is the answer and how sure, flags that nothing reads, frozen parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from graphdoc.evidence import Cut, Frame, Parameter, Raised, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy, distinct, edit_at, remedy_at, together
from graphdoc.model import Confidence, Span
from graphdoc.program import bindings, learning
from graphdoc.program.exception import NO_GRAPH, message_of
from graphdoc.program.library_calls import by_checkpoint
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, likely, possible
from graphdoc.program.spans import frames, innermost, moment, place, span, span_of, where
from graphdoc.program.tracker import words_for
from graphdoc.program.values_taken_out import is_only_printed
from graphdoc.program.writers import is_only_written
from graphdoc.source.paths import called, is_attribute, is_constant, is_read, path_of
from graphdoc.story.wording import all_told, as_called, folded, in_number, listing, optimizer_of

_RANK = ("conversion", "detach", "nondifferentiable", "no-grad")
"""Which cut to believe where several meet in one loss.

A target under ``no_grad`` and an index from ``argmax`` are everyday and right; a value that was turned into a number on
its way to the loss hardly ever is.
"""


def without_graph(raised: Raised | None) -> bool:
    """Whether the run ended because the loss had no graph."""
    return message_of(raised, *NO_GRAPH) is not None


def is_gradient(cut: Cut) -> bool:
    """Whether the cut is a gradient (``autograd.grad`` or ``p.grad``) that was computed without a graph of its own."""
    return cut.op.rsplit(".", 1)[-1] == "grad"


def principal(program: Program) -> Cut | None:
    """The cut that explains the failure best: a gradient without graph first, then what an optimizer is to train and
    was cut off, then by rank, then the nearest to the loss."""
    known = [c for c in program.cuts if c.reason in _RANK or is_gradient(c)]
    known = [c for c in known if not _leads_nowhere(program.sources, c)] or known
    if not known:
        return program.cuts[0] if program.cuts else None
    return min(
        known,
        key=lambda c: (
            not is_gradient(c),
            _may_be_constant(program, c),
            _rank(program, c),
            _is_beside(program.trained, c),
        ),
    )


def _rank(program: Program, cut: Cut) -> int:
    """Where recording is still off at the call that fails, that alone keeps the loss from having a graph."""
    still_off = cut.reason == "no-grad" and cut.certain and not recording_was_on(program.evidence.extras)
    return -1 if is_gradient(cut) or still_off else _RANK.index(cut.reason)


def _may_be_constant(program: Program, cut: Cut) -> bool:
    """Whether what was cut off is known to be nobody's to train."""
    return not is_gradient(cut) and bool(cut.behind) and not is_learned(program, cut)


def find_cut(program: Program, *reasons: str) -> Cut | None:
    """The cut nearest to the loss that has one of these reasons, of what is to be trained first; None where the run did
    not end for want of a graph. A gradient's is another cause's."""
    if not without_graph(program.raised):
        return None
    mine = [c for c in program.cuts if c.reason in reasons and not is_gradient(c)]
    mine = [c for c in mine if not _leads_nowhere(program.sources, c)]
    return min(mine, key=lambda c: (_may_be_constant(program, c), _is_beside(program.trained, c)), default=None)


def _leads_nowhere(sources: SourceTexts, cut: Cut) -> bool:
    """Whether what was cut off is only written into, or, where it was not seen to go into the loss, only printed."""
    at = innermost(cut.stack)
    return is_only_written(sources, at) or (not cut.certain and is_only_printed(sources, at))


def _is_beside(trained: frozenset[str] | None, cut: Cut) -> bool:
    """Whether what was cut off is known to be another loss's to train: a baseline, in the loss of a policy."""
    return bool(trained) and bool(cut.behind) and not {*cut.behind} & (trained or set())


def is_learned(program: Program, cut: Cut) -> bool:
    """Whether an optimizer holds something that lies behind the cut: then gradients were meant to go through it.

    A target that another network computed, and a label, are cut off as they should be.
    """
    return bool(program.owners.holding(name for c in alike(program.cuts, cut) for name in c.behind))


def weigh(program: Program, cut: Cut) -> tuple[float, Confidence]:
    """How strong the finding is: the principal cut is the answer, others only accompany it.

    That something was cut off is seen; that it is the fault is proven only where an optimizer is to train it, or where
    the loss itself is what was cut off.
    """
    if principal(program) is not cut:
        return 0.5, "possible"
    alone = len({c.reason for c in program.cuts if c.reason != "frozen"}) <= 1
    made = loss_made(program.evidence.extras)[1]
    whole = bool(made) and bool(cut.stack) and innermost(made) == innermost(cut.stack)
    meant = cut.reason not in _RANK or is_gradient(cut) or whole or is_learned(program, cut)
    frozen = {p.name for p in program.parameters if not p.requires_grad}
    # An optimizer that has nothing to train by now may be the one whose loss this is.
    idle = any(o.parameters and frozen.issuperset(o.parameters) for o in program.optimizers)
    if cut.certain and alone and meant and not (idle and cut.reason != "frozen"):
        return 0.95, Proof.GRAPH_END.confidence
    if cut.reason == "detach" and not cut.certain:
        return 0.8, "possible"  # a tensor comes out of it, and would have been seen on its way to the loss
    return (0.9, "likely") if cut.certain else (0.8, "likely")


def story(program: Program, cut: Cut, label: str) -> tuple[Span, ...]:
    """The places of a cut: where the graph ends, the last operation that had one, and the line that noticed.

    Other cuts of the same reason are causes too (two lists turned into tensors), up to three places in all.
    """
    # Beside one that keeps parameters from learning, one that does not may well be meant.
    told = [c for c in alike(program.cuts, cut) if c.behind or not cut.behind]
    marks = (
        (c.stack, label.replace(as_called(cut.op), as_called(c.op))) for c in (_in_text(told) if cut.certain else told)
    )
    ends = _one_a_line(s for stack, ended in marks for s in span_of("cause", stack, ended))
    last = f"the last operation with a graph ({cut.before_op})".removesuffix(" ()")
    before = span_of("related", cut.before, last)
    both = cut.certain or cut.reason == "constant"  # whatever a loss is made from, all of it comes in somewhere
    return distinct(
        (*ends[: 2 if both else 1], *before, *program.raised_span("the loss that arrives here has no graph"))
    )


def _in_text(cuts: list[Cut]) -> list[Cut]:
    """The two cuts that are told first; where the ways to them part in one function, the upper one runs before."""
    first, second = ([f for f in c.stack if f.user] for c in cuts[:2]) if len(cuts) > 1 else ([], [])
    parted = next(((a, b) for a, b in zip(first, second, strict=False) if a.extent != b.extent), None)
    if parted is None or not parted[0].in_function_of(parted[1]) or parted[0].line <= parted[1].line:
        return cuts
    return [cuts[1], cuts[0], *cuts[2:]]


def alike(cuts: list[Cut], cut: Cut) -> list[Cut]:
    """The cut and the others by which the same loss lost its graph for the same reason."""
    same = [c for c in cuts if c.reason == cut.reason and c is not cut and not is_gradient(c)]
    return [cut, *(c for c in same if by_checkpoint(c) == by_checkpoint(cut))]


def of_other_terms(program: Program, cut: Cut) -> list[Cut]:
    """The cuts for the same reason on which another term of the loss hangs alone, of what an optimizer is to train:
    with this one mended and not these, what that term was to train would go on without it, and nothing would say so."""
    terms = [t for t in program.evidence.extras.get("loss_terms") or () if isinstance(t, list)]
    cuts = program.cuts
    alone = {t[0] for t in terms if len(t) == 1 and t[0] < len(cuts) and cuts[t[0]] is not cut}
    found = [c for c in (cuts[i] for i in sorted(alone)) if c.reason == cut.reason and not is_gradient(c)]
    return [c for c in found if not c.behind or program.owners.holding(c.behind)]


def of_other_parameters(program: Program, cut: Cut) -> list[Cut]:
    """For a parameter that is taken as a constant itself (``self.weight.data``), the same done with other ones that an
    optimizer is to train: with this one alone mended, those would stay without gradient."""
    if cut.before or not cut.certain:
        return []
    found = [c for c in program.cuts if (c.reason, c.op) == (cut.reason, cut.op) and not c.before and c.certain]
    others = [c for c in found if c is not cut and set(c.behind) - set(cut.behind)]
    return [c for c in others if program.owners.holding(c.behind)]


def _one_a_line(spans: Iterable[Span]) -> tuple[Span, ...]:
    """One place for each line: two operations of one expression need not be told twice."""
    found: dict[tuple[str, int], Span] = {}
    for s in spans:
        found.setdefault((s.file, s.line), s)
    return tuple(found.values())


def of_cut(sources: SourceTexts, cut: Cut) -> str:
    """What ends the graph, as the program calls it: `math.exp()` where that asks a tensor for its number."""
    call = bindings.call_at(sources, innermost(cut.stack)) if cut.reason == "conversion" else None
    name = path_of(call.func) if call is not None else ""
    own = cut.op.strip("_").rpartition(".")[2]
    return as_called(name if name and own not in bindings.text_of(call) else cut.op)


def same_line(cut: Cut) -> str:
    """``train.py:12`` of a cut, for a sentence; "one line" where no place is known."""
    return where(innermost(cut.stack)) or "one line"


def facts_of(cuts: list[Cut], cut: Cut) -> tuple[str, ...]:
    """What was measured at the cut: the operation, and the parameters that now get no gradient, by it or its like."""
    facts: list[str] = []
    if cut.before_op:
        ending = as_called(cut.op).replace("`", "")
        facts.append(f"the graph ends after `{cut.before_op}`: the result of {ending} has none")
    behind = list(dict.fromkeys(name for c in alike(cuts, cut) if c is cut or c.certain for name in c.behind))
    if behind:
        facts.append(f"through it no gradient reaches {folded(behind)}")
    return tuple(facts)


def kept_note(cut: Cut) -> str:
    """The effect of keeping the graph at a cut: sure where the loss was seen to come from there."""
    flow = "gradients then flow through this value into everything that it was computed from."
    return flow.capitalize() if cut.certain else f"If the loss is computed from it by PyTorch alone, {flow}"


def loss_made(extras: dict[str, Any]) -> tuple[str, list[Frame]]:
    """The operation that made a loss without graph and its place, where a second run has seen it; else empty."""
    told = extras.get("loss_made")
    first = told[0] if isinstance(told, list) and told else None
    if not isinstance(first, dict):
        return "", []
    return str(first.get("op", "")), frames(first.get("stack"))


def recording_was_on(extras: dict[str, Any]) -> bool:
    """Whether grad mode was on when the call failed (True where it is not known)."""
    return bool(extras.get("grad_enabled", True))


def unseen(program: Program, strength: float, title: str, hint: str) -> Finding | None:
    """A weak finding where nothing was seen of how the loss lost its graph: one possible reason of several.

    ``strength`` below 0.35 keeps it behind everything that was measured.
    """
    if not without_graph(program.raised) or program.cuts or loss_made(program.evidence.extras)[0]:
        return None
    text = (
        "The message says only that the loss has no graph; where it was lost was not observed. One reason to look for: "
    )
    run = " A run under graphdoc shows the line." if program.evidence.from_text else ""
    where_noticed = program.raised_span("the loss that arrives here has no graph")
    return Finding(*possible(strength), title, f"{text}{hint}{run}", where_noticed)


# Telling ``module.requires_grad = False``, which sets an attribute that nothing reads and switches no parameter.


_CALLED = [["{module}.requires_grad = {flag}", "{module}.requires_grad_({flag})"]]


def flag_of_module(program: Program, sign: Sign) -> Finding | None:
    """The finding for a ``flag-of-module`` sign; None where the program reads such a flag, which is its own then, or
    where no statement is known to have set it: one on a module of that name, or the only one that is on no parameter.
    """
    sources, names, value = program.sources, list(sign.facts["names"]), bool(sign.facts["value"])
    flags = [
        (file, n)
        for file, n in bindings.everywhere(sources, ast.Attribute)
        if n.attr == FLAG and not learning.runs_over_parameters(sources, file, n.value)
    ]
    set_on = {id(n): n.value for _, n in flags if not is_read(n)}
    asked = [(file, n.value) for file, n in flags if is_read(n)]
    asked += [(file, n.args[0]) for file, n in bindings.everywhere(sources, ast.Call) if _asks_by_text(n)]
    read = {name for file, owner in asked for name in words_for(sources, file, owner)}
    found = [
        (file, n, set_on[id(n.targets[0])])
        for file, n in bindings.everywhere(sources, ast.Assign)
        if id(n.targets[0]) in set_on and learning.switches(n) is value
    ]
    named = [one for one in found if bindings.text_of(one[2]).rpartition(".")[2] in names]
    if read & {*names, "self"} if named else read or len(found) != 1:
        return None
    found = named or found
    weight = Proof.SOURCE.at(0.92) if named else likely(0.92)  # that nothing else has set it is how the source reads
    places = [bindings.frame_of(sources, file, node) for file, node, _ in found]
    module = bindings.text_of(found[0][2])
    whose, stepping = folded(sign.parameters) or "its parameters", optimizer_of(program.optimizers, sign)
    done = f"{stepping} steps {whose}" if not value else f"{whose} stay frozen"
    note = f"{'Less' if not value else 'More'} is trained than before, as the line says."
    title = f"Call `{module}.requires_grad_({value})`" + (" and the same of the others" if len(places) > 1 else "")
    headline = f"`{module}.requires_grad = {value}` {'freezes' if not value else 'unfreezes'} nothing: "
    headline += "its parameters are trained" if not value else "its parameters stay frozen"
    text = "A module has no flag `requires_grad`; its parameters have. Python stores the attribute and nothing reads "
    text += "it. `requires_grad_()`, with an underscore, switches all parameters of a module."
    spans = (
        *(span("cause", at, "sets an attribute of the module") for at in places[:3]),
        *span_of("related", sign.stack, done),
    )
    remedies = tuple(together([edit_at("rewrite", at, pairs=_CALLED) for at in places], title, "unsafe", note))
    because = f"after {sign.count} steps of {stepping} the module's attribute is {value}, and `requires_grad` is "
    because += f"{not value} for all parameters in it"
    return Finding(*weight, headline, text, spans, remedies=remedies, because=because)


def _asks_by_text(node: ast.Call) -> bool:
    """``getattr(module, "requires_grad")``."""
    return called(node) in ("getattr", "hasattr") and len(node.args) > 1 and is_constant(node.args[1], FLAG)


_EACH_TRAIN = (
    "`model.train()` calls `train()` of every module in it. Where that freezes parameters, what another part of the "
    "program unfreezes does not last."
)


# Telling parameters that were unfrozen for the training and that a module's ``train()`` freezes again.


def frozen_again(program: Program, sign: Sign) -> Finding | None:
    """The finding for a ``frozen-again`` sign; None where no ``train()`` freezes: it may be meant."""
    override = learning.freezing_in_train(program.sources)
    switched_on = learning.unfreezing(program.sources)
    if override is None or not switched_on:
        return None
    whose = folded(sign.parameters, beside=program.names) or "parameters"
    name = optimizer_of(program.optimizers, sign)
    freezes = override.frame(program.sources, override.statement)
    spans = (
        span("cause", freezes, "runs at every `train()`, and freezes them again"),
        *(span("cause", f, "unfreezes parameters, until the next `train()`") for f in switched_on[:1]),
        *span_of("related", sign.stack, f"{name} leaves them out"),
    )
    weight = likely(0.92)  # that ``train()`` freezes is seen; it may be the plan of the training
    title = f"{whose} were unfrozen, and `{override.cls.name}.train()` freezes them again"
    remedies = _kept_unfrozen(program.sources, override)
    because = f"they were frozen, received gradients for some steps of {name}, and are frozen again while it steps"
    return Finding(*weight, title, _EACH_TRAIN, tuple(spans), remedies=remedies, because=because)


def frozen_throughout(program: Program, sign: Sign) -> Finding | None:
    """The finding for a ``frozen-throughout`` sign; None where the program has not unfrozen them on its way to the step
    or may have frozen them elsewhere: a frozen backbone is no fault."""
    override = learning.freezing_in_train(program.sources)
    unfrozen = learning.unfrozen_before(program.sources, sign.stack, override) if override is not None else None
    mine = [name for name in sign.parameters if unfrozen is not None and unfrozen.has(name)]
    if override is None or unfrozen is None or not mine:
        return _frozen_since_loading(program, sign)
    whose, name = folded(mine, beside=program.names), optimizer_of(program.optimizers, sign)
    freezes = override.frame(program.sources, override.statement)
    weight = likely(0.92)  # as above
    title = f"{whose} were unfrozen, but `{override.cls.name}.train()` freezes them before the first step"
    spans = (
        span("cause", freezes, "runs at every `train()`, and freezes them again"),
        span("cause", unfrozen.at, "unfreezes them, until the next `train()`"),
        span("related", unfrozen.train, "freezes them again"),
        *span_of("related", sign.stack, f"{name} leaves them out"),
    )
    remedies = _kept_unfrozen(program.sources, override)
    because = f"{name} holds them, the program switches them on before the training, and they were frozen in each of "
    because += "its first steps"
    return Finding(*weight, title, _EACH_TRAIN, spans, remedies=remedies, because=because)


def _frozen_since_loading(program: Program, sign: Sign) -> Finding | None:
    """The same where the optimizer's state says that they had been unfrozen before it was saved; None where the
    program does not do so at one value of a count that this run has passed: to go on with less may be meant."""
    numbers = sign.facts.get("numbers", {})
    found = learning.switched_at_a_count(program.sources, numbers) if "before" in sign.facts else None
    if found is None or learning.switched_at_a_count(program.sources, numbers, False) is not None:
        return None  # at a later value, perhaps, they are frozen again
    condition, unfreezes = found
    freezes = learning.unfreezing(program.sources, False)
    whose, name = folded(sign.parameters, beside=program.names) or "parameters", optimizer_of(program.optimizers, sign)
    note = "it then holds for every later value too; what is to be done once needs a condition of its own"
    weight = likely(0.9)  # that they were trained before and are not now is seen; that they should be is how it reads
    title = f"{whose} are frozen again after the checkpoint"
    text = "A state dict holds no `requires_grad`. What is unfrozen at one value of a count stays frozen in a run that "
    text += "begins behind it."
    spans = (
        span("cause", condition, "decides by single values of a count"),
        *(span("cause", at, "freezes them") for at in freezes if len(freezes) == 1),
        span("related", unfreezes, "so this does not run again"),
        *span_of("related", sign.stack, f"{name} leaves them out"),
    )
    remedies = (Remedy("argument", "unfreeze from that value on, not at it alone", "display", note),)
    because = f"the state that {name} has loaded counts {sign.facts['before']} steps of them and more of the others; "
    because += "here they were frozen in each step"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


def _kept_unfrozen(sources: SourceTexts, override: learning.TrainOverride) -> tuple[Remedy, ...]:
    if not override.call or override.init_end is None:
        return ()
    at = override.frame(sources, override.statement)
    if override.frozen_once:
        note = "it is frozen when it is made, and what is unfrozen later stays so"
        return remedy_at(at, "delete_statement", "freeze it in `__init__` only", "unsafe", note)
    added = edit_at("add_statement", override.frame(sources, override.init_end), statement=override.call)
    edits, note = [edit_at("delete_statement", at), added], "what is unfrozen later stays so"
    return tuple(together(edits, "freeze once, when the module is made", "unsafe", note))


# Telling of a forward whose parameters were all frozen: of the whole loss, or of what was seen to go into it.

FORWARD = (
    "When the forward ran, none of the parameters that it used had `requires_grad=True`. "
    "So no operation was recorded and the loss has no graph."
)

_ALONE = (
    "Of what was seen to go into this loss, the last operations used frozen parameters alone, so that none of them was "
    "recorded. Other parameters require gradients: what they have computed went into this loss without a graph, or not "
    "at all."
)


def frozen_forward(parameters: list[Parameter]) -> tuple[str, bool]:
    """What is said of it, and whether no parameter that an optimizer holds requires gradients: then nothing else can
    have gone into the loss."""
    others = any(p.requires_grad and p.owners and not p.buffer for p in parameters)
    return (_ALONE if others else FORWARD), not others


# Telling ``p.require_grad = False``: an attribute that nothing reads, beside the flag that it was to be.

FLAG = "requires_grad"


def misspelled_flag(program: Program, sign: Sign) -> Finding | None:
    """The finding for a ``misspelled-flag`` sign; None where the program reads this attribute, or sets it both ways."""
    name, value = str(sign.facts["attribute"]), bool(sign.facts["value"])
    found: list[tuple[str, ast.Assign]] = []
    for file, node in bindings.everywhere(program.sources):
        if (is_attribute(node, name) and is_read(node)) or is_constant(node, name):
            return None  # by its name in a text: ``getattr(p, name)``
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(node, ast.Assign) or not is_attribute(target, name):
            continue
        if isinstance(node.value, ast.Constant) and node.value.value is not value:
            return None
        found.append((file, node))
    if not found:
        return None
    places = [bindings.frame_of(program.sources, file, node) for file, node in found]
    whose, stepping = folded(sign.parameters) or "the parameters", optimizer_of(program.optimizers, sign)
    text = bindings.text_of(found[0][1])
    spelled = [[f"{{it}}.{name} = {{flag}}", f"{{it}}.{FLAG} = {{flag}}"]]
    edits = [edit_at("rewrite", at, pairs=spelled) for at in places]
    title = f"spell {'each' if len(edits) > 1 else 'it'} `{FLAG}`"
    headline = f"`{text}` {'unfreezes' if value else 'freezes'} nothing: the flag is `{FLAG}`"
    story = f"A tensor has no flag `{name}`. Python stores the attribute, and nothing reads it."
    spans = (
        *(span("cause", at, "sets an attribute that nothing reads") for at in places[:3]),
        *span_of("related", sign.stack, f"{whose} stay frozen" if value else f"steps {whose}"),
    )
    note = f"{'More' if value else 'Less'} is trained than before, as the line says."
    remedies = tuple(together(edits, title, "unsafe", note))
    because = f"after {sign.count} steps of {stepping} that attribute is {value}, and `{FLAG}` is {not value} for "
    because += f"{whose}"
    return Finding(*Proof.SOURCE.at(0.92), headline, story, spans, remedies=remedies, because=because)


# Telling parameters that were frozen for another loss and are still frozen where their own loss is computed.


def still_frozen(program: Program, found: learning.KeptFrozen) -> Finding:
    """The finding; it stands for whatever else keeps this loss from having a graph, which was so the last time too."""
    whose, one = folded(found.names), len(found.names) == 1
    freezing = list(learning.freezing_of(program.sources, found.names, program.names))
    was, them, are, their = in_number(not one, "were them are their")
    told, because = _told(program, found, whose, one)
    earlier = found.earlier.stack if found.earlier is not None else []
    weight = Proof.STEPS.at(0.98, found.earlier is not None)
    title = (
        f"{whose} {was} frozen since the last time that this loss trained {them}"
        if found.earlier is not None
        else f"{whose} {are} still frozen where {their} own loss is computed"
    )
    text = f"{told}, so nothing of this loss is recorded. What is frozen for another loss has to be unfrozen before "
    text += "its own loss is computed."
    spans = (
        *(span("cause", f.at, f"freezes {whose}, and nothing unfreezes {them}") for f in freezing[:2]),
        *span_of("created", earlier, "had a graph here", moment(found.earlier)),
        *program.raised_span("the loss that arrives here has no graph"),
    )
    remedies = _let_go(program.sources, found, freezing)
    return Finding(*weight, title, text, spans, remedies=remedies, covers="GD3", because=because)


def _told(program: Program, found: learning.KeptFrozen, whose: str, one: bool) -> tuple[str, str]:
    """That they are frozen, and what shows that this loss is to train them: as a part of a sentence and as a whole."""
    none = "it requires no gradient" if one else "none of them requires gradients"
    if found.earlier is None:
        names = all_told(program.optimizers, program.journal.works_for(found.failing))
        holds = f"{' and '.join(names)} {'steps' if len(names) == 1 else 'step'} after this call and hold"
        holds += "s" * (len(names) == 1)
        return f"{holds} {whose}: {none}", f"{holds} nothing but what is frozen: {whose}"
    number = program.journal.number(found.earlier)
    before = f"backward #{number}" if number is not None else "the call before"
    return (
        f"The last call here ({before}) reached {whose}. By now {none}",
        f"{before}, made here, reached {whose}; {'it is' if one else 'all of them are'} frozen now",
    )


def _let_go(sources: SourceTexts, found: learning.KeptFrozen, freezing: list[learning.Freezing]) -> tuple[Remedy, ...]:
    out: list[Remedy] = []
    for f in freezing:
        behind = learning.released_behind(sources, f, found.between)
        if behind is not None:
            title = f"let {folded(found.names)} require gradients again after {where(behind)}"
            note = f"What {where(f.at)} freezes is then frozen for that other loss alone, and trained by its own."
            out += remedy_at(behind, "add_statement", title, "unsafe", note, statement=f.opposite)
    return tuple(out[:2])


# Telling a forward that ran while its parameters were frozen, where they are not by the time of its backward.


def unfrozen_since(program: Program, cut: Cut, since: set[str], freezing: tuple[Span, ...], strength: float) -> Finding:
    """The finding for a cut of reason ``frozen``; ``since`` are those of its parameters that require gradients by now,
    ``freezing`` the statements that froze them."""
    whose, one = folded(since), len(since) == 1
    was = "was" if one else "were"
    weight = likely(strength)  # what the others have computed may have come in by a write that is not followed
    title = f"{whose} {was} frozen when the forward of this loss used {'it' if one else 'them'}, and unfrozen too late"
    text = f"Of what was seen to go into this loss, the last operations ran while {whose} {was} frozen, so that none "
    text += f"of them was recorded. {'It requires' if one else 'They require'} gradients by now, which gives what was "
    text += "computed before no graph."
    spans = (*freezing, *story(program, cut, "computed here while its parameters were frozen"))
    return Finding(*weight, title, text, spans, facts_of(program.cuts, cut), _remedies(program, cut))


def _remedies(program: Program, cut: Cut) -> tuple[Remedy, ...]:
    """Compute it again where the parameters are unfrozen, if one function does both; else in words."""
    end = program.raised_at
    here = [f for f in cut.stack if end is not None and f.in_function_of(end)]
    call = here[0] if here else innermost(cut.stack)
    if call is None:
        return ()
    note = "What is computed from parameters that require gradients has a graph, whatever becomes of the flags."
    behind = _unfrozen_between(program.sources, call, end) if here and end is not None else None
    words = f"unfreeze the parameters before {where(call)}, or compute it again after the line that unfreezes them"
    by_hand = Remedy("compute_again", words, "display", note, {"place": place(call)})
    if behind is None or end is None:
        return (by_hand,)
    args = {"places": [place(call)], "after": place(behind), "backward": place(end)}
    title = f"compute {where(call)} again, after {where(behind)}, where its parameters are unfrozen"
    return (Remedy("recompute_after", title, "unsafe", note, args), by_hand)


def _unfrozen_between(sources: SourceTexts, call: Frame, end: Frame) -> Frame | None:
    """The last line between the forward and the backward, in their file, that lets parameters require gradients."""
    found = [f for f in learning.unfreezing(sources) if f.file == call.file and call.line < f.line < end.line]
    return max(found, key=lambda f: f.line, default=None)


# Telling tensors that are to learn and were made without ``requires_grad=True``.


def forgotten_flag(
    program: Program, learners: list[learning.Learner], strength: float, remedies: tuple[Remedy, ...]
) -> Finding:
    """What is held by an optimizer, or whose gradient is read, does not require gradients."""
    shown = named(learners)
    many = len(learners) > 1
    held = any(one.held for one in learners)
    spans: list[Span] = [span("cause", one.frame, _label(one)) for one in learners[:2]]
    used = learners[0].used
    spans.append(span("related", used, f"is to update {'them' if many else 'it'}" if held else "reads its gradient"))
    lacks = "do not require gradients" if many else "does not require gradients"
    title = f"the gradient of {shown} is read, and {'they' if many else 'it'} {lacks}"
    headline = f"{shown} {'are' if many else 'is'} given to an optimizer and {lacks}" if held else title
    text = "Nothing that the loss is computed from requires gradients. "
    text += f"{'An optimizer holds' if held else 'The program reads the gradient of'} {shown}, made without "
    text += "`requires_grad=True`: autograd records nothing for such a tensor."
    places = (*spans, *program.raised_span("the loss that arrives here has no graph"))
    because = f"{'an optimizer holds' if held else 'the gradient is read of'} {shown}, and nothing that the loss is "
    because += "computed from requires gradients"
    return Finding(*Proof.GRAPH_END.at(strength, held), headline, text, places, remedies=remedies, because=because)


def named(learners: list[learning.Learner]) -> str:
    """How a sentence calls them: ```w` and `b```."""
    unnamed = sum(not one.name for one in learners)
    rest = ["tensors of the list" if unnamed > 1 else "a tensor of the list"] if unnamed else []
    return listing([*dict.fromkeys(f"`{one.name}`" for one in learners if one.name), *rest])


def _label(one: learning.Learner) -> str:
    made = "is made here and does not require gradients"
    return f"`{one.name}` {made}" if one.name else made
