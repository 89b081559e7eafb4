"""Telling gradients that were to add up over several batches, and are cleared before each."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program.counted_steps import is_counted
from graphdoc.program.signs import name_of
from graphdoc.program.spans import code_at, distinct, innermost_user, place, span
from graphdoc.source.paths import parse_expression
from graphdoc.story.optimizers import optimizer_of
from graphdoc.story.wording import listing


def thrown_away(sources: SourceTexts, optimizers: list[Optimizer], signs: list[Sign]) -> Finding | None:
    """The finding for ``cleared-while-collecting`` signs; None where no remainder decides on the step."""
    found: list[tuple[Sign, Frame, Frame, Frame]] = []
    for sign in signs:
        clear, call = innermost_user(sign.stack), innermost_user(sign.other)
        step = [Frame(**f) for f in sign.facts["step"]]
        if clear is None or call is None or not step or not is_counted(sources, step[0], [clear, call]):
            continue
        if not found or found[0][2] == call:
            found.append((sign, clear, call, step[0]))
    if not found:
        return None
    sign, _, call, _ = found[0]
    many, one = int(sign.facts["calls"]), len(found) == 1
    names = listing(optimizer_of(optimizers, s) for s, *_ in found)
    clears, steps = [c for _, c, _, _ in found], [s for *_, s in found]
    return Finding(
        0.94,
        "likely",  # what is thrown away is seen; that the calls were to add up the source alone suggests
        f"{names} {'is' if one else 'are'} cleared before each of {many} backward calls: only the last one counts",
        f"`backward()` adds to `.grad`, and a step every {many} calls is to use the sum. `zero_grad()` before each "
        "call throws away what the calls before it have added.",
        distinct(
            (
                *(span("cause", c, "throws away the gradients of the calls before", sources) for c in clears),
                span("related", call, f"runs {many} times for each step", sources),
                *(span("related", s, "uses the gradients of the last call alone", sources) for s in steps),
            )
        ),
        remedies=_remedies(sources, clears, steps) if all(name_of(optimizers, s) for s, *_ in found) else (),
        because=f"before each of {sign.count} steps the same place cleared the gradients {many} times, and backward "
        f"followed {many} times",
    )


def _remedies(sources: SourceTexts, clears: list[Frame], steps: list[Frame]) -> tuple[Remedy, ...]:
    edits = []
    for clear, step in zip(clears, steps, strict=True):
        code = code_at(sources, clear)
        if clear.file != step.file or not isinstance(parse_expression(code), ast.Call):
            return ()
        edits.append({"kind": "delete_statement", "args": {"place": place(clear)}})
        edits.append({"kind": "add_statement", "args": {"place": place(step), "statement": code, "before": False}})
    note = "each step uses the sum of all gradients since the step before"
    return (Remedy("several", "clear the gradients behind the step", "unsafe", note, {"edits": edits}),)
