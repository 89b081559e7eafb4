"""GD709: a parameter was written between a forward and its backward where no version counter tells."""

from __future__ import annotations

from dataclasses import replace

from graphdoc.causes import links
from graphdoc.causes.base import Cause, Page
from graphdoc.causes.overwritten import optimizer_step_before_backward, retain_graph_cover_up
from graphdoc.evidence import Evidence
from graphdoc.finding import Finding
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


def recognise(evidence: Evidence) -> Finding | None:
    """The evidence is that of the error which another optimizer would have caused; so is the story."""
    sign = evidence.as_if
    if sign is None or sign.kind != "stale-parameter":
        return None
    covers = "optimizer-step-before-backward"
    finding = optimizer_step_before_backward.recognise(evidence)
    if finding is None:
        covers = "retain-graph-cover-up"
        finding = retain_graph_cover_up.recognise(evidence)
    if finding is None:
        return None
    whose = folded(sign.parameters)
    return replace(
        finding,
        strength=1.0,
        spans=tuple(replace(s, label=_NEEDS) if "finds version" in s.label else s for s in finding.spans),
        title=f"a fused step moves {whose or 'parameters'} between a forward and its backward, unnoticed",
        explanation="The fused optimizer writes its parameters without raising their version, so PyTorch does not "
        "refuse this backward. Its gradient combines old activations with new parameters.",
        covers=covers,
        because="this backward needs values that were saved before the step, and the step has changed them",
    )


CAUSE = Cause(
    code="GD709",
    slug="stale-parameter-unseen",
    title=TITLE,
    page=PAGE,
    recognise=recognise,
    families=("silent",),
)
