"""What can be done about a random draw on the loss's way: a draw that gradients pass, or its log-probability."""

from __future__ import annotations

import ast
from typing import Any

from graphdoc.evidence import Cut, Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost, place
from graphdoc.program.tensors import tensor_named
from graphdoc.program.value_reads import bound_names
from graphdoc.source.module import Source
from graphdoc.source.paths import last_word

_WITHOUT = ("mixture_same_family.py", "von_mises.py")
"""Distributions without ``rsample`` whose ``sample`` draws from one that has it."""
_JOINT = ("independent.py", "multivariate_normal.py", "lowrank_multivariate_normal.py", "dirichlet.py")
"""Distributions whose ``log_prob`` is that of the whole last dimension."""


def draw_remedies(program: Program, cut: Cut) -> tuple[Remedy, ...]:
    """The patches for a cut that is a ``Distribution.sample()``, best first; none for another operation."""
    frame = innermost(cut.stack)
    drawn = bindings.call_at(program.sources, frame)
    if frame is None or drawn is None or not isinstance(drawn.func, ast.Attribute) or drawn.func.attr != "sample":
        return ()
    inside = [f for f in cut.stack if not f.user and "/torch/distributions/" in f.file.replace("\\", "/")]
    if not inside:
        return ()
    found: list[Remedy] = []
    if _reparametrised(inside):
        found.append(
            Remedy(
                "rsample",
                "Draw with rsample(), which gradients pass",
                "unsafe",
                "The draw is the same number, written as a function of the distribution's parameters: gradients flow "
                "through it into them.",
                {"place": place(frame)},
            )
        )
    loss = program.raised_at
    if loss is not None:
        found.append(
            Remedy(
                "log_prob_surrogate",
                "Weigh the loss by the log-probability of the draw",
                "unsafe",
                "The gradient is then the policy gradient (score function) of the expected loss; the loss's own value "
                "means nothing any more. Subtracting a baseline from the reward makes it less noisy.",
                {
                    "place": place(frame),
                    "loss": place(loss),
                    "summed": _summed(program.sources, program.evidence.extras, frame, loss, inside),
                },
            )
        )
    return tuple(found)


def is_scored(sources: SourceTexts, cut: Cut) -> bool:
    """Whether the program asks for the log-probability of the very draw: then it knows that the draw gives numbers, and
    the gradient goes by the log-probability."""
    frame = innermost(cut.stack)
    root = bindings.tree(sources, frame.file) if frame is not None else None
    if frame is None or root is None:
        return False
    bound = set(bound_names(sources, frame))
    calls = (n for n in ast.walk(root) if isinstance(n, ast.Call) and n.args and last_word(n.func) == "log_prob")
    return any(bound & {*bindings.names_in(n.args[0])} for n in calls)


def _reparametrised(inside: list[Frame]) -> bool:
    """Whether the distribution has ``rsample`` (``Distribution.sample`` calls it; ``Normal`` draws by itself)."""
    files = [f.file.replace("\\", "/").rsplit("/", 1)[-1] for f in inside]
    if set(files) & set(_WITHOUT):
        return False
    return files[-1] == "normal.py" or any(f.function.rsplit(".", 1)[-1] == "rsample" for f in inside)


def _summed(sources: SourceTexts, extras: dict[str, Any], drawn: Frame, loss: Frame, inside: list[Frame]) -> bool:
    """Whether ``log_prob`` gives a number for each element of what the loss counts as one decision."""
    if any(f.file.endswith(_JOINT) for f in inside):
        return False
    sample = next((s for n in _names_bound(sources, drawn) if (s := _shape(extras, n)) is not None), None)
    if not sample:
        return False
    call = bindings.call_at(sources, loss)
    root = bindings.text_of(call.func.value) if call is not None and isinstance(call.func, ast.Attribute) else ""
    told = bindings.assignments(sources, loss, root)
    shapes = [_shape(extras, n.id) for n in ast.walk(told[0][1]) if isinstance(n, ast.Name)] if told else []
    return sample not in shapes and sample[:-1] in shapes


def _names_bound(sources: SourceTexts, drawn: Frame) -> list[str]:
    source = sources.get(drawn.file)
    return list(Source(drawn.file, source).names_bound_by(drawn.line, drawn.column)) if source else []


def _shape(extras: dict[str, Any], name: str) -> tuple[int, ...] | None:
    known = tensor_named(extras, name)
    return known.shape if known is not None else None
