"""GD508: the calls of a GradScaler come in an order or number that it cannot work with."""

from __future__ import annotations

from graphdoc.causes.base import Cause, Example, Finding, Page
from graphdoc.causes.reading import raised_at, raised_span, says, weight
from graphdoc.causes.spans import distinct, span
from graphdoc.evidence import Evidence

TITLE = "The calls of the GradScaler do not follow its order: scale, backward, unscale, step, update"

PAGE = Page(
    what_happened="""\
One iteration with a `GradScaler` has a fixed order: `scaler.scale(loss).backward()`, then perhaps
`scaler.unscale_(optimizer)` for clipping, then `scaler.step(optimizer)` once for each optimizer, then
`scaler.update()` once. Here a call is missing, comes twice or comes too late:

- `unscale_` twice for one optimizer: once by hand and once in a clipping helper or in gradient accumulation;
- `step` twice, or `unscale_` after `step`, without an `update` in between;
- `step` for an optimizer none of whose parameters has a gradient: `zero_grad()` was called too early, the backward
  ran on the unscaled loss of other parameters, or the optimizer holds stale or frozen parameters;
- `step` or `update` before any `scale`;
- the *parameters* are half precision (`model.half()`), so the gradients are, too.
""",
    why="""\
Small gradients vanish in float16. The scaler multiplies the loss by a large factor, divides the gradients by it
before the step, skips the step if they contain infinities, and adapts the factor in `update`. For each optimizer it
keeps a state between two updates: scaled, unscaled, stepped. Dividing twice would silently give gradients that are
too small by a factor of some thousands, so it raises instead: *unscale_() has already been called on this optimizer
since the last update()*.

*No inf checks were recorded for this optimizer* means that it found no gradient at all to look at. *Attempting to
unscale FP16 gradients* means that the gradients have lost the small values already.
""",
    example="""\
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
clip_grad_norm_(model.parameters(), 1.0)
scaler.unscale_(optimizer)
scaler.step(optimizer)
""",
    use_instead="""\
scaler.scale(loss).backward()
scaler.unscale_(optimizer)  # once, and only where gradients are looked at before the step
clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
optimizer.zero_grad()
""",
    fix_safety="""\
Display: which of the calls is the one too many depends on the loop. With accumulation over several batches, unscale,
step and update belong to the last batch only. With several optimizers: one `scale(loss).backward()` for each loss,
one `step` for each optimizer, one `update` at the end of the iteration.

Keep the parameters in float32 and let `torch.autocast` choose the precision of the operations. `bfloat16` needs no
scaler.
""",
    not_this="""\
- The step is skipped in the first iterations and a warning about `lr_scheduler.step()` appears: the scaler is looking
  for its factor; that is no error.
- Losses are nan: the scaler cannot repair a nan that the forward makes.
- Anomaly detection reports infinities in the backward of a scaled loss: they are expected there.
""",
    references=(
        ("Automatic mixed precision examples", "https://docs.pytorch.org/docs/stable/notes/amp_examples.html"),
        ("torch.amp.GradScaler", "https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling"),
    ),
)

SICK = (
    Example(
        name="clipping-unscales-again",
        code="""\
import torch
from torch import nn

torch.manual_seed(0)


class Trainer:
    def __init__(self):
        self.model = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu")

    def clip(self):
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def step(self, x, accumulate):
        for part in x.chunk(accumulate):
            loss = self.model(part).square().mean() / accumulate
            self.scaler.scale(loss).backward()
            self.clip()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()


Trainer().step(torch.randn(8, 3), accumulate=2)
""",
        fails="unscale_() has already been called on this optimizer since the last update()",
        line="self.scaler.unscale_(self.optimizer)",
    ),
    Example(
        name="gradients-reset-before-the-step",
        code="""\
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cpu")
for step in range(2):
    loss = model(torch.randn(4, 3)).square().mean()
    scaler.scale(loss).backward()
    optimizer.zero_grad()
    scaler.step(optimizer)
    scaler.update()
""",
        fails="No inf checks were recorded for this optimizer",
        line="scaler.step(optimizer)",
    ),
)

HEALTHY = (
    Example(
        name="unscale-once-after-accumulating",
        code="""\
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for step in range(2):
    for part in torch.randn(8, 3).chunk(2):
        scaler.scale(model(part).square().mean() / 2).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
print(scaler.get_scale() > 0)
""",
    ),
    Example(
        name="two-optimizers-one-update",
        code="""\
import torch

torch.manual_seed(0)
a, b = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
opt_a, opt_b = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (a, b))
scaler = torch.amp.GradScaler("cpu")
x = torch.randn(4, 3)
scaler.scale(a(x).square().mean()).backward()
scaler.scale(b(x).square().mean()).backward()
scaler.step(opt_a)
scaler.step(opt_b)
scaler.update()
print(scaler.get_scale() > 0)
""",
    ),
)

_TELLS = (
    ("unscale_() has already been called", "The gradients of this optimizer were unscaled already in this iteration."),
    ("unscale_() is being called after step()", "The step has been taken; unscale before it, once."),
    ("step() has already been called since the last update()", "`scaler.update()` is missing between two steps."),
    (
        "No inf checks were recorded for this optimizer",
        "None of the optimizer's parameters has a gradient at this point: they were reset, never computed, or belong "
        "to "
        "other tensors.",
    ),
    ("No inf checks were recorded prior to update", "No optimizer was stepped through the scaler before this update."),
    ("Attempting to unscale FP16 gradients", "The parameters themselves are half precision; keep them in float32."),
    ("Attempted step but _scale is None", "The loss was not scaled: call `scaler.scale(loss).backward()` first."),
    ("Attempted unscale_ but _scale is None", "The loss was not scaled: call `scaler.scale(loss).backward()` first."),
    ("Attempted update but _scale is None", "The loss was not scaled: call `scaler.scale(loss).backward()` first."),
    (
        "Closure use is not currently supported if GradScaler is enabled",
        "Optimizers that need a closure cannot be used.",
    ),
)


def recognise(evidence: Evidence) -> Finding | None:
    """One of the scaler's own complaints; the place is the call that it refused."""
    told = next((text for phrase, text in _TELLS if says(evidence, phrase)), None)
    if told is None:
        return None
    strength, confidence = weight(evidence, 0.95)
    frame = raised_at(evidence)
    marks = (span("cause", frame, "this call of the scaler does not fit here", evidence),) if frame else ()
    return Finding(
        strength,
        confidence,
        TITLE,
        f"{told} The order of an iteration is: scale and backward, unscale at most once, step once for each optimizer, "
        "update once.",
        distinct((*marks, *(raised_span(evidence, "") if not marks else ()))),
    )


CAUSE = Cause(
    code="GD508",
    slug="amp-scaler-misuse",
    title=TITLE,
    page=PAGE,
    recognise=recognise,
    families=("amp",),
    sick=SICK,
    healthy=HEALTHY,
)
