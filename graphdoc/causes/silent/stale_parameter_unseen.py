"""GD709: a parameter was written between a forward and its backward where no version counter tells."""

from __future__ import annotations

from dataclasses import replace

from graphdoc.causes import links
from graphdoc.causes.base import Cause, Page
from graphdoc.finding import Finding
from graphdoc.model import Span
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite, Saved
from graphdoc.program.update_function import scene
from graphdoc.remedies.update_order import covered_remedies, stepped_remedies
from graphdoc.story.overwrite import stepped_and_before, story, trust
from graphdoc.story.wording import folded

TITLE = "a fused optimizer steps between a forward and its backward, and PyTorch does not notice"

PAGE = Page(
    what_happened="""\
Two losses come from one forward pass, and the optimizer steps between their two `backward()` calls. With most
optimizers PyTorch refuses the second call: a parameter that it needs has been modified. With `fused=True` there is no
error. The second call combines activations of the old parameters with the new parameters, and its gradient belongs to
neither.
""",
    why="""\
Every in-place operation raises a tensor's version counter, and a backward compares it with the version at which a
tensor was saved. The fused kernels of Adam, AdamW and SGD write the parameters without raising it (as do writes to
`.data`), so there is nothing to compare.
""",
    example="""\
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
first, second = losses(net(x))
first.backward(retain_graph=True)
optimizer.step()
optimizer.zero_grad()
second.backward()
optimizer.step()
""",
    use_instead="""\
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
first, _ = losses(net(x))
first.backward()
optimizer.step()
optimizer.zero_grad()
_, second = losses(net(x))
second.backward()
optimizer.step()
""",
    fix_safety="""\
Unsafe, because it decides what the second loss is measured on: on the new parameters (run the forward again), or on the
old ones (one step for both losses). Dropping `fused=True` alone turns the silence into PyTorch's error.
""",
    not_this="""\
- PyTorch raised the error about an in-place operation: `optimizer-step-before-backward`.
- What was written is an activation or a buffer: `inplace-on-saved-activation`, `buffer-updated-in-place`.
""",
    references=(links.IN_PLACE, links.OPTIM),
)


_NEEDS = "needs the values from before the step; no version tells that they are gone"


def recognise(program: Program) -> Finding | None:
    """The evidence is that of the error which another optimizer would have caused; so are the remedies."""
    sign = program.evidence.as_if
    found = program.overwrite if sign is not None and sign.kind == "stale-parameter" else None
    if sign is None or found is None or found.saved is not Saved.PARAMETER or not found.by_step:
        return None
    whose = folded(sign.parameters)
    return Finding(
        1.0,
        trust(found, 0.96)[1],
        f"a fused step moves {whose or 'parameters'} between a forward and its backward, unnoticed",
        "The fused optimizer writes its parameters without raising their version, so PyTorch does not "
        "refuse this backward. Its gradient combines old activations with new parameters.",
        tuple(
            replace(s, label=_NEEDS) if "finds version" in s.label else s
            for s in story(program.sources, program.raised, found, _causes(program, found))
        ),
        remedies=(covered_remedies if found.covered_up else stepped_remedies)(program, found),
        covers="GD2",
        because="this backward needs values that were saved before the step, and the step has changed them",
    )


def _causes(program: Program, found: Overwrite) -> list[Span]:
    """The step, and the forward that ran before it."""
    at = scene(program, found)
    step, forwards = stepped_and_before(program.sources, found, at.lines[:2] if at is not None else ())
    return step + forwards


CAUSE = Cause(
    code="GD709",
    slug="stale-parameter-unseen",
    title=TITLE,
    page=PAGE,
    recognise=recognise,
    families=("silent",),
)
