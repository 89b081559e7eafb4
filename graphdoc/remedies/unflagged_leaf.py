"""A tensor that is there to be filled, and needs no flag for that."""

from __future__ import annotations

from typing import Any

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import call_at
from graphdoc.program.observed import Program
from graphdoc.program.refused_writes import RefusedWrite
from graphdoc.program.spans import place, where
from graphdoc.program.written_leaves import flags_of, gradient_asked, leads_to
from graphdoc.remedies.in_place_write import together
from graphdoc.source.paths import last_word

FLAG = "requires_grad"


def without_flag(program: Program, write: RefusedWrite) -> tuple[Remedy, ...]:
    """The flag dropped where a tensor is made that no optimizer of the program holds and no module owns: it is there to
    be filled, and what is written into it has the graph. One whose own gradient is taken is there for that."""
    frame, path = write.frame, write.target.path
    held = [p.name for p in program.parameters if p.owners]
    container, entry, _ = path.partition("[")
    # Of an entry only its container's name is known, and what goes by no module's name may be one.
    container = container.rpartition(".")[2]
    stepped = any(
        "." not in name or container in name.replace("[", ".").split(".") if entry else leads_to(path, name)
        for name in held
    )
    if not program.optimizers or stepped or gradient_asked(program.sources, frame, path):
        return ()
    made = flags_of(program.sources, frame, path)
    if not made:
        return ()
    note = "No optimizer steps this tensor; what is written into it is then recorded, and gets its gradient through it."
    lines = " and ".join(dict.fromkeys(where(m) for m in made))
    title = f"do not let `{path}` require gradients where it is made, at {lines}"
    return tuple(together([_dropped(program.sources, m) for m in made], title, "safe", note))


def _dropped(sources: SourceTexts, made: Frame) -> dict[str, Any]:
    call = call_at(sources, made)
    method = call is not None and last_word(call.func) == "requires_grad_"
    args = {"place": place(made)}
    return {"kind": "drop_call", "args": args} if method else {"kind": "drop_keyword", "args": {**args, "name": FLAG}}
