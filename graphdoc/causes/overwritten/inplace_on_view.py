"""GD208: an in-place operation on a view for which autograd cannot, or will not, track the write."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Raised, SourceTexts
from graphdoc.finding import Finding, remedy_at
from graphdoc.model import Span
from graphdoc.program.exception import SEVERAL_VIEWS, message_of
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.refused_writes import RefusedWrite, refused_write, unpacked_view
from graphdoc.program.spans import frames, innermost_user, span, span_of, where
from graphdoc.program.writers import bound_before
from graphdoc.remedies.in_place_write import instead_of_write
from graphdoc.story.message_alone import from_message
from graphdoc.story.overwrite import told_unpacked

_NEEDED_SINCE = "one of several views of a tensor is used after that tensor was changed in place"

WRITTEN_SINCE = ("view-base-modified-multi-output",)
UNDER_INFERENCE = ("view-of-view-inference-mode-inplace", "view-inference-mode-inplace")
UNDER_NO_GRAD = ("view-no-grad-inplace", "view-of-view-no-grad-inplace", *UNDER_INFERENCE)
CUSTOM = ("view-custom-function-inplace",)
OVERLAP = ("expanded-inplace", "legacy-inplace-noversion")
CUT = ("detach-view-inplace",)

PAGE = Page(
    code="GD208",
    title="An in-place operation on a view whose writes autograd does not track",
    families=("inplace-view", "legacy"),
    what_happened="""\
A tensor that shares the memory of another one is written in place, and it is one of the views for which this is
refused:

- an output of a function that returns **several views**: `unbind`, `chunk`, `split`, and also `for row in x:`, which is
  an `unbind`; or its base was written and an output is used afterwards;
- a view that was made **under `no_grad`** (or in inference mode) and is written outside, with something that has a
  gradient;
- a view made **inside a custom Function**, which includes the output of any module with a full backward hook;
- an **expanded** tensor, in which several elements are one memory cell.

`detach_()` writes no numbers, but changes the tensor's history in place, and is refused on **every** view. A gradient
that `torch.autograd.grad` has returned can be one: that of a `Linear` weight is a transposed product.""",
    why="""\
A recorded write to a view has to change the history of its base, too: both are the same memory. For a single view
(`x[0]`, `x[:, :3]`, `x.view(…)`) autograd does this: `x[0].mul_(2)` makes `x` the result of a `CopySlices` that
contains the write. For one output of a function with several outputs it cannot, because one node stands for all of
them. A view that was made under `no_grad` has a base but no recorded path to it. PyTorch could treat the write as
recorded or as not recorded; both are plausible, so it refuses. With an expanded tensor the result would depend on the
order of the writes.

Small differences decide. `chunk` and `split` are refused; `tensor_split`, `hsplit` and slices, which make the same
pieces as single views, are allowed (2.13). On an expanded tensor `m += 1` is refused, but `m[0] = 0` is not, and sets
*every* row to zero, since they are all the same memory.""",
    example="""\
gates = linear(x)
i, f = gates.chunk(2, dim=-1)
i.sigmoid_()                     # i is one of several views of `gates`""",
    use_instead="""\
gates = linear(x)
i, f = gates.chunk(2, dim=-1)
i = i.sigmoid()                  # a new tensor""",
    fix_safety="""\
Safe: write out of place (`row = row * 2`), or on a `clone()` of the view, if only the view's new value is used from
then on. The base keeps its old values, which is what to look at: where the base was *meant* to change, build it again
with `torch.stack` or `torch.cat`, or index it, `for i in range(len(x)): x[i].mul_(2)`.

For a view made under `no_grad` PyTorch's message proposes moving both lines inside or both outside. Inside, the write
is not recorded and what is written gets no gradient. Outside, the write is recorded *and still changes the base*, which
is often the caller's data: a batch that the next epoch reads again, now with a graph in it (`carried-state`). A
`clone()` at the place where the view is made avoids both.

For `detach_()`, use what `detach()` returns: `h = h.detach()`, or a new list, `grads = [g.detach() for g in grads]`.
In a loop `g = g.detach()` alone changes nothing but the loop's own name. A gradient that is only wanted as a number
needs no cut at all without `create_graph=True`.""",
    not_this="""\
- The base is a parameter, "a view of a leaf Variable": `inplace-on-leaf`.
- The tensor itself was made in inference mode: `inplace-on-inference-tensor`.
- The write succeeds and `backward()` fails with two versions: `inplace-on-saved-activation`,
  `state-overwritten-in-place`.""",
    references=(links.TENSOR_VIEWS, links.IN_PLACE, "torch.no_grad"),
)


def recognise(program: Program) -> Finding | None:
    """The messages belong to this cause alone; the run knows the write, and the source where the view comes from."""
    if program.message(*CUT) is not None:
        write = refused_write(program, *CUT)
        return _cut(program.sources, write) if write is not None else _cut_from_text(program)
    used = refused_write(program, *WRITTEN_SINCE)
    if used is not None:
        return _used(program, used.frame)
    write = refused_write(program, *SEVERAL_VIEWS, *UNDER_NO_GRAD, *CUSTOM, *OVERLAP)
    return _told(program, write) if write is not None else _from_text(program)


def _used(program: Program, frame: Frame) -> Finding:
    """What PyTorch refuses is a use: the write was made before, into the base or into another of the views.

    The view finds that out when its history is asked for (``VariableHooks::grad_fn`` of
    torch/csrc/autograd/variable.cpp): at its next use in an operation, or where a backward call unpacks it.
    """
    backward = program.failing is not None and program.failing.failed
    needs = "this backward needs" if backward else "is used here:"
    one = "one of several views that one call had returned"
    found = unpacked_view(program) if backward else None
    if found is not None:
        return told_unpacked(program.sources, found, frame, _NEEDED_SINCE)
    text = f"{where(frame)} needs {one} (`unbind`, `chunk`, `split`, a loop over a tensor). Since then the tensor that "
    text += "they are views of was written in place, as an optimizer's step writes into a parameter, and autograd "
    text += "cannot tell what the views are now. Keep the tensor itself, and take its parts again where they are used."
    spans = (span("cause", frame, f"{needs} {one}, whose base was written since"),)
    return Finding(*Proof.RAISED.at(0.6 if backward else 0.96), _NEEDED_SINCE, text, spans)


def _told(program: Program, write: RefusedWrite) -> Finding:
    frame, target = write.frame, write.target
    places = [frame] if write.visible else write.built
    shown = write.visible or bool(places)  # else something below this call writes, into nobody knows what
    what = f"`{target.path}`" if target.path and shown else "a tensor"
    made = bound_before(program.sources, frame, target.path) if shown else None
    spans = [span("cause", frame, f"writes into {what}")]
    spans += [span("cause", b, "built to write in place") for b in places if b.line != frame.line][:1]
    if made is not None:
        spans.append(span("cause", made, f"{what} comes from here"))
    return Finding(
        *Proof.RAISED.at(0.96, shown),
        f"{what} is changed in place: {_brief(program.raised)}",
        f"{where(frame)} writes into {what}, {_kind(program.raised)}. "
        "Write into a clone of it, or compute a new tensor.",
        (*spans, span("mutated", frame, f"{what} is written here"), *_switch(program)),
        remedies=instead_of_write(program, places, target),
    )


def _cut(sources: SourceTexts, write: RefusedWrite) -> Finding:
    """``detach_()`` on a view: the message belongs to this alone, and its line is the call."""
    frame, target = write.frame, write.target
    what = f"`{target.path}`" if target.path else "a view"
    made = bound_before(sources, frame, target.path)
    spans = [span("cause", frame, f"cuts {what} off in place")]
    if made is not None:
        spans.append(span("created", made, f"{what} comes from here"))
    note = "The tensor that is used from then on has no graph, as was meant; what it is a view of keeps its own."
    title = f"{what} is a view, and `detach_()` cannot cut a view in place"
    text = f"{where(frame)} calls `detach_()` on {what}, which shares the memory and the history of another tensor. "
    text += "Use what `detach()` returns."
    remedies = remedy_at(frame, "detach_instead", f"use what `detach()` returns, at {where(frame)}", "unsafe", note)
    return Finding(*Proof.RAISED.at(0.96), title, text, tuple(spans), remedies=remedies)


# The same where its text alone is known.
_cut_from_text = from_message("inplace-on-view: cut", "`detach_()` cannot cut a view in place", *CUT)


def _brief(raised: Raised | None) -> str:
    """The same for a title."""
    if message_of(raised, *OVERLAP):
        return "some of its elements share memory"
    if _for_a_hook(raised):
        return "it is a view for a module's full backward hook"
    return "a view whose writes autograd does not track"


def _for_a_hook(raised: Raised | None) -> bool:
    """Whether the view is one of those that ``register_full_backward_hook`` puts around a module (``torch.nn``,
    2.13: ``BackwardHookFunction``): the program has no Function of its own."""
    return raised is not None and "BackwardHookFunction" in raised.message


def _kind(raised: Raised | None) -> str:
    """What is special about the view, as far as the message tells."""
    if _of_several(raised):
        return "one of several views that a call returned without gradients, which autograd does not track"
    if message_of(raised, *UNDER_NO_GRAD):
        return "a view that was made under `no_grad`, so autograd cannot tell whether to record the write"
    if message_of(raised, *OVERLAP):
        return "an expanded tensor, several elements of which are one place in memory"
    if message_of(raised, *CUSTOM):
        if _for_a_hook(raised):
            return "a view that PyTorch makes for the full backward hook of a module: it must not be written into"
        return "a view that a custom Function has returned: its backward knows nothing of the write"
    return "one of several views that one call returned (or a view of one): autograd does not track writes into it"


def _of_several(raised: Raised | None) -> bool:
    """Whether a view "created in no_grad mode" is one of several. PyTorch says so of the pieces of every tensor that
    does not require gradients, with gradients switched on as well (2.13)."""
    said = raised.message if raised is not None and message_of(raised, *UNDER_NO_GRAD) is not None else ""
    return "returns multiple views" in said


def _switch(program: Program) -> tuple[Span, ...]:
    """Where gradients were switched off when the view was made, as far as the last switch tells."""
    switches = program.evidence.extras.get("switches")
    if program.message(*UNDER_NO_GRAD) is None or not isinstance(switches, dict) or _of_several(program.raised):
        return ()
    mode = "inference_mode" if program.message(*UNDER_INFERENCE) else "no_grad"
    stack = frames(switches.get(mode))
    if any("/torch/nn/" in f.file.replace("\\", "/") for f in stack):
        return ()  # a layer that sets its first weights: it lets go of no view
    at = innermost_user(stack)
    return span_of("related", at, f"{mode} was switched on here last")


def _from_text(program: Program) -> Finding | None:
    """The messages belong to this cause alone, and their line is the write, or a use behind it."""
    if program.message(*WRITTEN_SINCE) is not None:
        return from_message("inplace-on-view: used", _NEEDED_SINCE, *WRITTEN_SINCE)(program)
    return from_message("inplace-on-view", PAGE.title, *SEVERAL_VIEWS, *UNDER_NO_GRAD, *CUSTOM, *OVERLAP)(program)
