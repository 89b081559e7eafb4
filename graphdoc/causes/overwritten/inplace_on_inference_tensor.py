"""GD209: a tensor made in inference mode is written, or saved for backward, outside of it."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Frame
from graphdoc.finding import Finding, Remedy
from graphdoc.model import Span
from graphdoc.program.cuts import Origin, origin_of
from graphdoc.program.exception import INFERENCE
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import place, span, where
from graphdoc.story.message_alone import from_message

PAGE = Page(
    code="GD209",
    title="A tensor made in inference mode is used in training",
    families=("inference-mode",),
    what_happened="""\
A tensor was computed under `torch.inference_mode()`, by a function with that decorator or in a library that uses it for
generation and evaluation, and then leaves the block and takes part in training: generated token ids go into an
embedding, a cached feature into a layer, a teacher's output or an advantage into a loss, a running statistic is updated
after an evaluation. The failing line is where it is used. The line to change is the one that switched inference mode
on.""",
    why="""\
Tensors that are made in inference mode are *inference tensors*, and stay so for life: they have no version counter and
no record of views. That is what makes the mode cheaper than `no_grad`. Autograd cannot save such a tensor, as it would
have no way to notice a later write; for the same reason it may not be written, or be given `requires_grad`, outside the
mode.

What is refused is *saving*, not touching. `w + x` and `w - x` need nothing of an inference tensor `x` and work; `w *
x`, `F.mse_loss(w, x)`, `linear(x)` and `embedding(x)` save it and raise. A normal tensor that is only read or written
inside the block stays normal, and its version counts on.

`clone()`, `stack`, `cat` or arithmetic *outside* the block make normal tensors. `clone()` inside does not, nor do
operations that have nothing to do and return the same tensor: `x.contiguous()`, `x.to(dtype)` with the dtype it has.
`detach()` does not, either.""",
    example="""\
@torch.inference_mode()
def generate(policy, prompt):
    return policy.sample(prompt)

tokens = generate(policy, prompt)
log_probs = policy(tokens)           # the embedding saves the token ids""",
    use_instead="""\
@torch.no_grad()
def generate(policy, prompt):
    return policy.sample(prompt)

tokens = generate(policy, prompt)
log_probs = policy(tokens)""",
    fix_safety="""\
Safe: `torch.no_grad()` instead of `torch.inference_mode()` records as little, gives the same numbers and returns normal
tensors, for all that leaves the block. It is somewhat slower inside, by the counting of versions and views.

A `clone()` outside the block is right too, where the block is not yours to change: of each tensor that leaves it, at
the place where it does. At the line that raised it is one patch for one use, and the next use raises again.

Neither makes the tensor differentiable. If the training was meant to go *through* it, neither mode is right there:
`cut-by-no-grad`.""",
    not_this="""\
- The tensor lacks a gradient, but nothing speaks of inference tensors: `cut-by-no-grad`.
- "A view was created in inference mode": the memory is that of a normal tensor, the view is the trouble,
  `inplace-on-view`.""",
    references=(links.INFERENCE_MODE, links.GRAD_MODES, "torch.no_grad"),
)


_WRITES = "writes it in place where inference mode is off. Such a tensor keeps no version that would tell of the write"
_USES = "uses it in a computation that autograd records. Such tensors never take part in one"


def recognise(program: Program) -> Finding | None:
    """The messages belong to this cause alone; the run knows where inference mode was switched on."""
    frame, known = program.raised_at, program.message(*INFERENCE)
    if program.evidence.from_text or frame is None or known is None:
        return _from_text(program)
    origin = origin_of(program)
    return _told(program, frame, origin) if origin.switch or origin.taken else _from_text(program)


def _told(program: Program, frame: Frame, origin: Origin) -> Finding:
    writes = program.message("inference-inplace") is not None
    named = f"`{origin.name}`" if origin.name else "A tensor"
    then = "changed in place outside of it" if writes else "used in training"
    source = f" at {where(origin.switch)}" if origin.switch is not None else ""
    title = f"{named} was made in inference mode and is {then}"
    text = f"{named} was made in inference mode{source}, and {where(frame)} {_WRITES if writes else _USES}. Use "
    text += "torch.no_grad() where it is made, or clone what leaves inference mode."
    met = program.raised_span("a computation that autograd records uses it here")
    if writes:
        met = (span("failed", frame, "changed in place here, outside of inference mode"),)
    spans = (*_causes(origin), *met)
    facts = (f"{origin.name} is an inference tensor",) if origin.name else ()
    remedies = _remedies(frame, origin, writes)
    return Finding(*Proof.MODE.at(0.96 if origin.sure else 0.85, origin.sure), title, text, spans, facts, remedies)


def _causes(origin: Origin) -> list[Span]:
    out: list[Span] = []
    if origin.switch is not None:
        out.append(span("cause", origin.switch, "inference mode is switched on here"))
    if origin.taken is not None:
        out.append(span("cause", origin.taken, f"{origin.name or 'the tensor'} leaves inference mode here"))
    return out


def _remedies(frame: Frame, origin: Origin, writes: bool) -> tuple[Remedy, ...]:
    out: list[Remedy] = []
    if origin.switch is not None:
        title = f"use torch.no_grad() instead of inference mode, at {where(origin.switch)}"
        note = "The same numbers, without gradient as before; the results are ordinary tensors."
        out.append(Remedy("swap_switch", title, "safe", note, {"place": place(origin.switch)}))
    if origin.taken is not None:
        fix = f"clone what leaves inference mode, at {where(origin.taken)}"
        effect = "A clone made outside inference mode is an ordinary tensor with the same numbers."
        out.append(Remedy("clone_expression", fix, "safe", effect, {"place": place(origin.taken)}))
    if writes:
        out.append(
            Remedy(
                "out_of_place",
                f"write a new tensor at {where(frame)}",
                "safe",
                "The inference tensor keeps its numbers; the new one is ordinary.",
                {"place": place(frame)},
            )
        )
    return tuple(out)


# The messages belong to this cause alone; their line is a use of the tensor, not where it was made.
_from_text = from_message("inplace-on-inference-tensor", PAGE.title, *INFERENCE)
