"""How a finding is told: beside what an installed package did, beside who ran the loop, or of a run that went on.

A cause finds what happened and names the user's innermost line. Where a package's code did it below that line, its own
place is shown too; what lies within one call of a package is the package's fault, and no patch of the caller helps.
Where a package runs the loop, its one line (``trainer.fit(…)``) is the place of nothing that one batch does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphdoc.evidence import LEFT_OUT, Cut, Event, Frame, Package, Sign, SourceTexts, package_of
from graphdoc.finding import Finding, Remedy, distinct
from graphdoc.model import Span
from graphdoc.program.bad_values import Trouble
from graphdoc.program.container_entries import kept_name
from graphdoc.program.cuts import cover_ups
from graphdoc.program.installed import Deed, deed_of, deed_span, keepers_of, makers_of, same_call, switch_of, turned_on
from graphdoc.program.library_calls import by_checkpoint
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.spans import caller_of, code_at, innermost_user, inside, is_at, moment, names_place, span, where
from graphdoc.program.writers import By, Writer
from graphdoc.source.paths import words
from graphdoc.story.gradients import moved_by
from graphdoc.story.missing_graph import of_cut
from graphdoc.story.overwrite import called, readable, saved_by
from graphdoc.story.wording import as_called, folded, in_number

MOST_DEEDS = 3
SEEN = 0.5
"""A weaker finding is read off the message alone: nothing is known of whose code it was."""

OVERWRITES = words(
    """
    optimizer-step-before-backward retain-graph-cover-up inplace-on-saved-activation state-overwritten-in-place
    buffer-updated-in-place parameter-overwritten
    """
)
"""The causes that tell of the overwrite; of one failure only one of them speaks."""


def assign(program: Program, slug: str, finding: Finding) -> Finding:
    """The finding of a cause with this slug, told of the code that did it."""
    if finding.strength < SEEN or not program.packages:
        return finding
    found = program.overwrite
    if found is not None and slug in OVERWRITES:
        finding = _written(program.sources, program.packages, found, finding)
    elif slug.startswith("custom-function-"):
        finding = _function(program, finding)
    else:
        finding = _kept(program, _beside(finding, _deeds(program, finding)))
        finding = _inside_a_function(program.trouble, finding)
    return _in_the_loop(program, found if slug in OVERWRITES else None, finding)


# -- what a package did ------------------------------------------------------------------------------------------------


def _written(sources: SourceTexts, packages: list[Package], found: Overwrite, finding: Finding) -> Finding:
    """A version error: the package's write, the package's save, and whether both lie within one call."""
    writer = _writer(found)
    wrote = deed_of(packages, writer.stack) if writer is not None else None
    saved = deed_of(packages, found.node.stack)
    told: list[Span] = []
    if wrote is not None and writer is not None:
        told.append(deed_span("mutated", wrote, f"written here, by {readable(writer)}"))
    if saved is not None:
        told.append(deed_span("consumed", saved, f"{saved_by(found.node)} saved it here", moment(found.node)))
    if wrote is not None and wrote.caller is not None:
        label = f"{wrote.package.told}, called here, writes into {called(found.stale)}, which backward needs"
        spans = [replace(s, label=label) if s.role == "cause" and is_at(wrote.caller, s) else s for s in finding.spans]
        finding = replace(finding, spans=tuple(spans))
    finding = _beside(finding, told)
    if wrote is None or saved is None or not same_call(sources, wrote, saved):
        return finding
    elsewhere = _unpatchable(finding.remedies, wrote, saved)
    if elsewhere:
        return replace(finding, remedies=tuple(elsewhere))  # the user asked for the write, where the remedy is
    package = wrote.package
    whose = package.told if saved.package is package else f"{package.told} (saved by {saved.package.told})"
    within = f"below the call at {where(wrote.caller)}" if wrote.caller is not None else "in one call"
    title = f"{package.told} overwrites a tensor that its own backward needs"
    text = f"{whose} writes into {called(found.stale)} at {wrote.place}, after {saved_by(found.node)} at {saved.place} "
    text += f"had saved it for backward; both happen {within}. The fault is the package's: nothing that the caller "
    text += f"does with the result lies between the two.{_advice(sources, wrote)}"
    remedies = (*_switched_off(sources, wrote), *_newer(wrote, f"{wrote.place} should write out of place"))
    because = f"{whose} writes at {wrote.place} into what {saved_by(found.node)} saved at {saved.place}, {within}"
    return replace(finding, title=title, explanation=text, remedies=remedies, because=because)


def _writer(found: Overwrite | None) -> Writer | None:
    """What wrote first, where it is no optimizer's step."""
    first = found.writers[0] if found is not None and found.writers else None
    return None if first is None or first.by is By.STEP else first


def _advice(sources: SourceTexts, deed: Deed) -> str:
    switch = switch_of(sources, deed)
    on = f" The line runs because of {turned_on(sources, switch)}." if switch is not None else ""
    return f"{on} {deed.package.name} should compute a new tensor there instead of writing into this one."


def _switched_off(sources: SourceTexts, deed: Deed) -> list[Remedy]:
    switch = switch_of(sources, deed)
    if switch is None:
        return []
    note = f"It turns on the branch of {deed.package.name} in which the line stands ({deed.place})."
    return [Remedy("leave_out", f"Do without {turned_on(sources, switch)}, if the program can", "display", note)]


def _function(program: Program, finding: Finding) -> Finding:
    """A Function whose backward is wrong: the package's line that applies it, and the user's call of that."""
    node = program.evidence.failing_node
    deed = deed_of(program.packages, node.stack) if node is not None else None
    if deed is None or any(s.role == "cause" for s in finding.spans):
        return finding
    finding = _beside(finding, [deed_span("related", deed, "the Function is applied here")])
    calls = (
        [] if deed.caller is None else [span("cause", deed.caller, f"calls {deed.package.told}, whose Function it is")]
    )
    text = f"{finding.explanation} The Function is applied at {deed.place} of {deed.package.told}: the fault is the "
    text += "package's."
    remedies = (*finding.remedies, *_newer(deed, "the Function's backward does not fit its forward"))
    return replace(finding, explanation=text, spans=(*calls, *finding.spans), remedies=remedies)


def _inside_a_function(trouble: Trouble | None, finding: Finding) -> Finding:
    """A function that a package calls, at whose input the value or its derivative is not finite: its line is shown, and
    nothing is done to what the user hands over, which is another value."""
    born = (trouble.born or trouble.turned) if trouble is not None else None
    deed = trouble.deed(born) if trouble is not None and born is not None else None
    caller = deed.caller if deed is not None else None
    if deed is None or caller is None or not any(s.role == "cause" and is_at(caller, s) for s in finding.spans):
        return finding
    label = f"{deed.package.told}, called here, computes it"
    spans = [replace(s, label=label) if s.role == "cause" and is_at(caller, s) else s for s in finding.spans]
    finding = replace(finding, spans=tuple(spans))
    text = f"{finding.explanation} It is computed at {deed.place} of {deed.package.told}."
    remedies = (
        *(r for r in finding.remedies if not names_place(r.args, caller, exact=True)),
        *(_other_input(deed, s) for s in finding.spans if s.role == "created"),
        *_newer(deed, f"{deed.place} is not finite, or has no finite gradient, at this input"),
    )
    return replace(_beside(finding, [deed_span("related", deed, "computed here")]), explanation=text, remedies=remedies)


def _other_input(deed: Deed, made: Span) -> Remedy:
    what = f"Give {deed.package.name} an input at which this value and its gradient are finite"
    return Remedy("other_input", what, "display", f"The input was made at {made.file}:{made.line}.")


def _newer(deed: Deed, what: str) -> list[Remedy]:
    package = deed.package
    version = f"{package.name} later than {package.version}" if package.version else package.name
    title = f"Look for a version of {version} that has it mended, else report it: {what}"
    note = "No change of the installed files: the next installation would take it back."
    return [Remedy("newer_package", title, "display", note)]


def _unpatchable(remedies: Sequence[Remedy], wrote: Deed, saved: Deed) -> list[Remedy]:
    """The remedies without those that change the very call in which both happen."""
    callers = [d.caller for d in (wrote, saved) if d.caller is not None]
    return [r for r in remedies if not any(names_place(r.args, c, exact=True) for c in callers)]


def _deeds(program: Program, finding: Finding) -> list[Span]:
    """The package's lines below the places of this finding: of a cut, or of a value that it keeps and takes up."""
    stacks = [(c.stack, "done here") for c in program.cuts if not by_checkpoint(c)]
    stacks += [(c.switch, "switched off here") for c in program.cuts if not by_checkpoint(c)]
    for carry in program.evidence.older_edges[:MOST_DEEDS]:
        producer, consumer = program.node(carry.producer), program.node(carry.consumer)
        if producer is None or consumer is None:
            continue
        if (
            deed_of(program.packages, producer.stack) is not None
            and deed_of(program.packages, consumer.stack) is not None
        ):
            stacks += [(producer.stack, "made here"), (consumer.stack, "used here")]
    out: list[Span] = []
    for stack, what in stacks:
        deed = deed_of(program.packages, stack)
        if deed is None or deed.caller is None or not any(is_at(deed.caller, s) for s in finding.spans):
            continue
        new = deed_span("related", deed, what)
        if not any(o.start == new.start for o in out):
            out.append(new)
    return out[:MOST_DEEDS]


def _kept(program: Program, finding: Finding) -> Finding:
    """Says where a package keeps a value from one pass to the next, where what it is made of and goes into is told."""
    for carry in program.evidence.older_edges[:MOST_DEEDS]:
        producer, consumer = program.node(carry.producer), program.node(carry.consumer)
        if producer is None or consumer is None or deed_of(program.packages, consumer.stack) is None:
            continue
        for holder in carry.tensor.holders:
            deed = next(keepers_of(program.packages, producer.stack, kept_name(holder)), None)
            if deed is not None and deed.caller is not None and any(is_at(deed.caller, s) for s in finding.spans):
                where_kept = f"{deed.package.told} keeps it at {deed.place}"
                because = f"{finding.because}; {where_kept}" if finding.because else ""
                return replace(finding, because=because, explanation=f"{finding.explanation} {where_kept}.")
    return finding


def _beside(finding: Finding, deeds: Sequence[Span]) -> Finding:
    known = {s.start for s in finding.spans}
    new = [s for s in deeds if s.start not in known]
    return replace(finding, spans=(*finding.spans, *new)) if new else finding


# -- who ran the loop --------------------------------------------------------------------------------------------------


def _in_the_loop(program: Program, found: Overwrite | None, finding: Finding) -> Finding:
    """No cause and no edit on the line that runs the loop, where a line of one batch is known."""
    line = program.driver
    if line is None:
        return finding
    remedies = tuple(r for r in finding.remedies if not names_place(r.args, line))
    spans = tuple(_below(program.failing, program.packages, s, line) for s in finding.spans)
    causes = [s for s in spans if s.role == "cause" and not is_at(line, s)]
    stepped = found is not None and bool(found.writers) and found.writers[0].by is By.STEP
    demoted = [replace(s, role="related") if s.role == "cause" and is_at(line, s) and stepped else s for s in spans]
    demoted = [s for s in demoted if s.role != "mutated" or s.label or not is_at(line, s)]
    if not causes:
        label = f"{saved_by(found.node)} saved {called(found.stale)} here" if found else "made here, for each batch"
        batch = _of_a_batch(program, found)
        if batch and not any(is_at(f, batch[0]) for stack in _stacks(program, found) for f in stack):
            label = "chosen here"
        causes = [span("cause", f, label) for f in batch[:1]]
    if not causes:
        return replace(finding, remedies=remedies)
    spans = distinct((*causes[:3], *(s for s in demoted if s.role != "cause")))
    between = _called_between(program, found)
    text = f"{finding.explanation} {between}".strip()
    if between:
        later = "Write in a function that is called after the step"
        remedies += (Remedy("write_after_step", later, "display", between),)
    return replace(finding, spans=spans, remedies=remedies, explanation=text)


def _below(failing_call: Event | None, packages: list[Package], told: Span, line: Frame) -> Span:
    """Of a backward call that the package makes, say so."""
    event = failing_call
    if told.role != "failed" or event is None or not is_at(line, told):
        return told
    package = next((p for f in reversed(event.stack) if (p := package_of(packages, f.file))), None)
    return replace(told, label=f"{told.label}; {package.told} calls it below this line") if package else told


def _of_a_batch(program: Program, found: Overwrite | None) -> list[Frame]:
    """The user's lines below the one that runs the loop, of what made the loss: innermost of each stack."""
    stacks = _stacks(program, found)
    out = [frames[-1] for stack in stacks if (frames := inside(program.driver, stack))]
    deeds = ((d, stack) for stack in stacks if (d := deed_of(program.packages, stack)))
    made_by, ran = next(deeds, (None, []))
    if made_by is None or out:
        return out
    # Nothing of the user's runs for a batch: he chose the package's code, where he made it or switched it on.
    switch = switch_of(program.sources, made_by)
    return [switch.frame] if switch is not None else makers_of(program.sources, made_by, ran)


def _stacks(program: Program, found: Overwrite | None) -> list[list[Frame]]:
    stacks = [found.node.stack] if found is not None else []
    stacks += [n.stack for i in (program.evidence.failing, program.evidence.root) if (n := program.node(i)) is not None]
    return stacks + [c.stack for c in program.cuts]


def _called_between(program: Program, found: Overwrite | None) -> str:
    """Says that a package calls one function of the user's for the forward, and another one for the write."""
    writer = _writer(found)
    if found is None or writer is None or (found.reuse is not None and found.reuse.carries):
        return ""
    forward, write = inside(program.driver, found.node.stack), inside(program.driver, writer.stack)
    if not forward or not write or forward[0].function == write[0].function:
        return ""
    package = caller_of(program.packages, writer.stack, write[0])
    if not package:
        return ""
    return (
        f"{package} calls `{write[0].function}` after `{forward[0].function}` and before the backward: let it write in "
        "a function that is called after the step."
    )


# Telling a lost graph in a run that went on: the causes tell it as the error that it would have been.

_FAILED = "the loss that arrives here has no graph"
_UNREACHED = "backward() reaches no parameter"


def retold(program: Program, finding: Finding, families: tuple[str, ...]) -> Finding:
    """The finding in the words of what was seen; as it is where its evidence tells of an exception that was raised.
    ``families`` are those of its cause."""
    sign = program.evidence.as_if
    if sign is None or sign.kind not in ("covered-loss", "constant-term", "cut-off", "cut-term"):
        return finding
    if "no-graph" not in families:
        return finding  # of another sign of the same run
    if sign.kind == "covered-loss":
        return _covered(program, finding)
    term = sign.kind == "constant-term"
    label = "a term of this loss has no graph" if term else "goes through the rest of the loss only"
    spans = [replace(s, label=label) if s.label == _FAILED else s for s in finding.spans]
    frame = innermost_user(sign.other)
    if frame is not None:
        spans.append(span("consumed", frame, "the term is added here: it has a value and no gradient"))
    whose = folded(sign.parameters, beside=program.names)
    if term:
        title = f"{_made_by(program)} a constant: it adds nothing to any gradient"
        because = "the other terms have a graph; this one, computed from what requires grad, has none"
    elif idle := [Frame(**f) for f in sign.facts.get("idle_sum", ())]:
        title = f"a term misses {whose}: its straight-through sum is never used"
        because = "in each round that was seen the sum was made and nothing took it; this term uses what the decision "
        because += "alone looks up"
        spans.append(span("related", idle[0], "has the decision's value and a gradient, and goes nowhere"))
        note = f"the term then reaches {whose}: the sum has the values that are looked up by the decision"
        way = Remedy("use_the_sum", "let this term take the straight-through sum", "display", note)
        finding = replace(finding, remedies=(way,))
    elif sign.facts.get("part"):
        title = f"a term of this loss gives {whose or 'what it was drawn from'} no gradient: it uses a drawn number"
        because = "other terms of the loss reach them; this one uses only what was drawn"
    elif sign.facts.get("inside"):
        lack, their = in_number(len(sign.parameters) != 1, "lack their")
        title = f"{whose or 'parameters'} {lack} a part of {their} gradient"
        because = "the loss reaches them in another way too; where these numbers keep their graph, the loss is the "
        because += "same and its gradient is another one"
    elif sign.kind == "cut-term":
        title = f"a term of this loss trains nothing: {whose or 'what it is for'} cannot be reached through it"
        lost = "go to no optimizer" if sign.facts.get("idle") else "are cleared before their step"
        because = "the optimizer of this loss holds no parameter of this term; the gradients that the term gives to "
        because += f"others {lost}"
    else:
        title, because = _of_none(sign, whose)
    told = program.cuts[0] if program.cuts else None
    explanation = f"{_ended_by(program.sources, told)}PyTorch raises no error, because the rest of the loss still has "
    explanation += "a graph."
    left = {n for s in program.signs if s.kind == LEFT_OUT for n in s.parameters} & {*(told.behind if told else ())}
    if sign.kind == "cut-off" and left:
        [receive] = in_number(len(left) != 1, "receive")
        explanation += f" {folded(left, beside=program.names)} {receive} none either, for the same reason."
    told_now = replace(finding, title=title, explanation=explanation, because=because, spans=tuple(spans))
    if term and frame is not None and _trains_nobody(program):
        return _of_untrained(told_now, folded({n: None for c in program.cuts for n in c.behind}))
    said = term and told is not None and told.reason == "detach"  # the author wrote so, of all of the term
    # What NumPy and Python have computed in between was not seen, so that this cut is the one is not proven.
    said = said or bool(sign.facts.get("said") or sign.facts.get("before"))
    said = said or bool(sign.facts.get("zeros"))  # the factor may be another one in a longer run
    said = said or bool(sign.facts.get("beside"))  # a derivative beside others in one sum
    if (sign.kind == "cut-term" or said) and finding.confidence == "certain":
        return replace(told_now, confidence="likely")  # that it was meant to is not in the graph
    return told_now


def _of_none(sign: Sign, whose: str) -> tuple[str, str]:
    """The title, and what was seen, of parameters that have no gradient at all when their optimizer steps."""
    receives, has, they, them, their = in_number(len(sign.parameters) != 1, "receive have they them their")
    cut_off = f"the graph is cut after {them}"
    title = f"{whose or 'parameters of the optimizer'} {receives} no gradient: {cut_off}"
    because = f"{their} optimizer steps, and no recorded backward call gave {them} a gradient"
    because += " other than zeros" * bool(sign.facts.get("zeros"))
    if sign.facts.get("cleared"):
        because = f"{their} optimizer found no gradient in {sign.count} steps: what another backward call gives {them} "
        because += "is cleared before"
    elif sign.facts.get("before"):
        because = f"{their} optimizer found gradients in earlier steps, and then none in {sign.count} steps in a row"
    if slope := sign.facts.get("measured"):
        because += f"; the loss depends on {them} all the same: {moved_by(slope)}"
    if sign.facts.get("at_steps"):
        title = f"{whose or 'parameters of the optimizer'} {has} no gradient when {their} optimizer steps"
        because = f"{they} had none at each step of {their} optimizer that was looked at"
    return title, because


def _trains_nobody(program: Program) -> bool:
    """Whether no optimizer holds anything that was cut off: with its graph, the term would train nobody either."""
    owners = {p.name: p.owners for p in program.parameters}
    behind = [name for cut in program.cuts for name in cut.behind]
    return bool(behind) and all(name in owners and not owners[name] for name in behind)


def _of_untrained(finding: Finding, whose: str) -> Finding:
    """A term that was computed from the wrong value: the cut is right, and the place to change is the term's own."""
    spans = [replace(s, role="related") if s.role == "cause" else s for s in finding.spans]
    title = "a term of the loss is a constant: no optimizer holds what it is computed from"
    text = f"It is computed from {whose}, and with a graph it would train nobody either. Compute it from what is to "
    text += "learn: one of its two sides, as a rule, is not the value that was meant."
    places = tuple(replace(s, role="cause") if s.role == "consumed" else s for s in spans)
    return replace(finding, title=title, explanation=text, spans=places, remedies=())


def _made_by(program: Program) -> str:
    """What makes a term of the loss what it is, as the beginning of a title."""
    cut = program.cuts[0] if program.cuts else None
    if cut is None or cut.reason == "no-grad":
        return "a term of the loss is"
    return f"{of_cut(program.sources, cut)} makes a term of the loss"


def _is_function(frame: Frame) -> bool:
    """Whether it is the ``apply`` of a ``Function``."""
    return frame.file.replace("\\", "/").endswith("torch/autograd/function.py") and frame.function == "Function.apply"


def _ended_by(sources: SourceTexts, cut: Cut | None) -> str:
    """What has left the value without a graph, as a sentence of its own."""
    if cut is None:
        return ""
    if by_checkpoint(cut):
        return "The reentrant checkpoint runs its block without recording, as none of its inputs requires gradients. "
    if cut.reason == "no-grad" and not cut.switch and any(map(_is_function, cut.stack)):
        return "The `Function` runs without recording, as none of the tensors given to `apply` requires gradients. "
    if cut.reason == "no-grad":
        return f"{as_called(cut.op)} runs where nothing is recorded. "
    return f"{of_cut(sources, cut)} ends the graph of this value. "


def _covered(program: Program, finding: Finding) -> Finding:
    """A loss without graph to which requires_grad was given: PyTorch's error never came."""
    hidden = [
        span("related", f, "hides the error that PyTorch would raise")
        for f in cover_ups(program.sources, program.evidence.as_if)
    ]
    named = f": `{code_at(program.sources, innermost_user(program.cuts[0].stack))}`" if program.cuts else ""
    label = "this backward ends at the loss itself: no parameter receives a gradient"
    spans = [replace(s, label=label) if s.label == _FAILED else s for s in finding.spans]
    title = f"{_UNREACHED}, because {_lowered(finding.title).removesuffix(f', so {_UNREACHED}')}"[:160]
    because = f"the loss was made to require gradients, and what it was computed from is cut off{named}"
    return replace(finding, title=title, spans=(*spans, *hidden), because=because)


def _lowered(text: str) -> str:
    return text if text[:1] in "`" or text[1:2].isupper() else text[:1].lower() + text[1:]
