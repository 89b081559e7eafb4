"""GD306: a gradient with respect to an input was asked for, and the input does not require gradients."""

from __future__ import annotations

import ast

from graphdoc.causes.base import Page
from graphdoc.evidence import Cut, Frame, Parameter, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.model import Confidence
from graphdoc.program import bindings
from graphdoc.program.asked_gradients import unset_gradient
from graphdoc.program.exception import NON_LEAF_GRAD, warned_at
from graphdoc.program.gathered_parameters import made_input
from graphdoc.program.gradient_reads import reads_gradient, rebound
from graphdoc.program.learning import meant_to_learn
from graphdoc.program.observed import Program
from graphdoc.program.parameter_paths import within
from graphdoc.program.proof import Proof
from graphdoc.program.spans import place, span
from graphdoc.remedies.recording import required
from graphdoc.source.paths import path_of
from graphdoc.story.missing_graph import find_cut, forgotten_flag, story, weigh
from graphdoc.story.wording import listing

PAGE = Page(
    code="GD306",
    title="The gradient of an input was asked for, but the input does not require gradients",
    what_happened="""\
The program wants the derivative with respect to data and not to parameters: a saliency map, an adversarial
perturbation, the derivative `du/dx` of a physics loss, a gradient penalty, an image that is optimised. The tensor it
asks about was made by `torch.randn`, a `DataLoader`, `torch.linspace` or `.detach()`, and such tensors do not require
gradients unless they are told to.

Or the flag was set on another tensor: on a copy, after the forward, or before an operation that made a new one
(`x.to(device)`, `x.reshape(...)`), where the new one is what went into the model.

Or what is to learn was made by hand without the flag: `w = torch.randn(3)`, given to an optimizer, or moved by
`w -= lr * w.grad`. Only `nn.Parameter` requires gradients by itself.

Or all parameters of a module are asked for, and some of them are frozen: a checkpoint function of one's own, whose
backward differentiates by everything that it was given, or an inner step of a model that is trained in part.""",
    why="""\
Autograd records only what leads to a tensor that requires gradients. For an input without the flag no edge of the
graph points at it, so there is no derivative to compute. `torch.autograd.grad(y, x)` says *One of the differentiated
Tensors does not require grad*; after `y.backward()` the attribute `x.grad` is None, and the next line fails with
*'NoneType' object has no attribute ...*. If nothing else in the computation requires gradients either (a frozen
model), the message is *element 0 of tensors does not require grad and does not have a grad_fn*.

The flag has to be set *before* the forward; on a tensor that was already used it changes nothing in the past.""",
    example="""\
x = torch.linspace(0, 1, 50).unsqueeze(1)
u = net(x)
du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]""",
    use_instead="""\
x = torch.linspace(0, 1, 50).unsqueeze(1).requires_grad_()
u = net(x)
du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]""",
    fix_safety="""\
Safe: the forward values and the gradients of all parameters stay what they were; the input's gradient is computed in
addition, at the cost of one more branch of the backward.

Set the flag on the tensor itself that goes into the model, after any `.to(device)` and reshaping, and before the
forward. For data that comes out of another network, `x = x.detach().requires_grad_()` begins a new graph there: the
gradient stops at `x`, which is usually what is meant, and the other network gets none.""",
    not_this="""\
- The input has the flag, and the message is *appears to not have been used in the graph*: `unused-in-graph`.
- The tensor is the result of an operation on a leaf with the flag; then its `.grad` is None too: `grad-of-non-leaf`.
- It is a parameter: `grad-is-none`.
- The tensor is of an integer dtype (token ids): differentiate with respect to the embeddings, see
  `integer-requires-grad`.""",
    references=("torch.autograd.grad", "Tensor.requires_grad_", "Tensor.grad"),
)


def recognise(program: Program) -> Finding | None:
    """``autograd.grad`` for a tensor without the flag, or a ``.grad`` that is None and was never a result."""
    if program.message("grad-input-no-requires-grad"):
        return _asked(program)
    if program.met_none:
        return _missing_grad(program)
    cut = find_cut(program, "input")
    return _told(program, cut) if cut is not None else None


def _told(program: Program, cut: Cut) -> Finding:
    strength, confidence = weigh(program, cut)
    if learners := meant_to_learn(program):
        return forgotten_flag(program, learners, strength, required(program.sources, learners))
    spans = story(program, cut, "computed from data that does not require gradients")
    return Finding(strength, confidence, "nothing that the loss is computed from requires gradients", _NOTHING, spans)


def _asked(program: Program) -> Finding:
    """``autograd.grad`` was asked for the gradient by a tensor that does not require any."""
    strength, confidence = program.weight(0.95, Proof.RAISED.confidence)
    frame = program.raised_at
    inputs, known = _without_flag(program, frame)
    certain = confidence == "certain" and known
    if known and (frozen := _frozen_among_others(program, inputs)) and frame is not None:
        return _of_frozen(frame, frozen, strength, certain)
    return _finding(program, frame, inputs, strength, certain, known or len(inputs) == 1)


_NOTHING = (
    "Nothing that this result was computed from requires gradients: neither a parameter nor the input. If the "
    "derivative with respect to the input is wanted, set `requires_grad_()` on it before the forward."
)


def _missing_grad(program: Program) -> Finding | None:
    """``x.grad.sign()`` where ``x.grad`` is None: this cause unless the run warned that ``x`` is no leaf."""
    frame = program.raised_at
    name = reads_gradient(program.sources, frame)
    if (
        frame is None
        or not name
        or warned_at(program.evidence.from_text, program.evidence.warnings, frame, *NON_LEAF_GRAD)
    ):
        return None
    if unset_gradient(program) is not None:
        return None  # it requires gradients, or is a frozen parameter
    if _is_parameter(program.parameters, name) or rebound(program.sources, frame, name):
        return None
    known = program.tensor_named(name)
    if known is not None and (known.requires_grad or not known.is_leaf):
        return None
    strength, _ = program.weight(0.85 if known else 0.4, "likely")
    return _finding(program, frame, [name], strength, known is not None, known is not None)


def _is_parameter(parameters: list[Parameter], name: str) -> bool:
    return "." in name and "" in within(name, (p.name for p in parameters)).values()


def _without_flag(program: Program, frame: Frame | None) -> tuple[list[str], bool]:
    """The inputs of the grad call that do not require gradients, by name, and whether that was seen of them."""
    asked = [str(n) for n in program.evidence.extras.get("asked") or () if n]
    count = program.evidence.extras.get("inputs", 0)
    written = _inputs(program.sources, frame)
    names = written if count in (0, len(written)) else asked  # a name may be that of a list
    flags = {t.path: t.requires_grad for t in reversed(program.tensors)}
    flags |= {p.name: p.requires_grad for p in program.parameters}
    seen = [n for n in names if flags.get(n) is False]
    return (seen, True) if seen else ([n for n in names if n not in flags], count == 1)


def _frozen_among_others(program: Program, inputs: list[str]) -> list[str]:
    """The parameters of modules among the inputs without the flag, where the call asks for others as well."""
    frozen = {p.name for p in program.parameters if not p.requires_grad and "." in p.name}
    found = [n for n in inputs if n in frozen]
    return found if found == inputs and program.evidence.extras.get("inputs", 0) > len(found) else []


def _of_frozen(frame: Frame, frozen: list[str], strength: float, certain: bool) -> Finding:
    """All parameters of a module are asked for, and some of them are frozen: they are to be left out."""
    many = len(frozen) > 1
    where = span("cause", frame, f"asks for {'them' if many else 'it'} as well")
    title = f"the gradient of `{frozen[0]}` is asked for, which is frozen"
    note = "What is frozen keeps its place in the result, with None for its gradient."
    args = {"place": place(frame)}
    remedy = Remedy("grad_of_flagged", "Ask only for the gradients of those that require them", "safe", note, args)
    headline = (
        f"the gradients of `{frozen[0]}` and {len(frozen) - 1} more are asked for, which are frozen" if many else title
    )
    text = (_FROZEN_MANY if many else _FROZEN_ONE).format(told=listing([f"`{n}`" for n in frozen]))
    spans = (where,)
    return Finding(strength, Proof.NODE.confidence if certain else "likely", headline, text, spans, remedies=(remedy,))


_FROZEN_ONE = (
    "{told} has `requires_grad=False`, so autograd records nothing for it and has no derivative to give; the other "
    "inputs of this call have theirs."
)
_FROZEN_MANY = (
    "{told} have `requires_grad=False`, so autograd records nothing for them and has no derivative to give; the other "
    "inputs of this call have theirs."
)


def _inputs(sources: SourceTexts, frame: Frame | None) -> list[str]:
    """The names given as ``inputs`` to the grad call; none where the call is given the result of another."""
    given = bindings.argument(bindings.call_at(sources, frame), 1, "inputs")
    each = given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
    return [name for node in each if node is not None and (name := path_of(node))]


def _finding(
    program: Program, frame: Frame | None, inputs: list[str], strength: float, certain: bool, seen: bool = True
) -> Finding:
    label = "does not require gradients" if seen else "does not seem to require gradients"
    made = [found for n in inputs if (found := made_input(program.evidence, n))]
    spans = [
        span("cause", m.frame, f"`{m.name}` {'comes in' if m.given else 'is made'} here and {label}") for m in made[:2]
    ]
    if frame:
        spans.append(span("cause", frame, "its gradient is asked for here"))
    remedies: tuple[Remedy, ...] = ()
    if made:
        title = f"Let `{made[0].name}` require gradients where it {'comes in' if made[0].given else 'is made'}"
        note = "The gradient of the input is computed in addition; nothing else changes."
        remedies = remedy_at(made[0].frame, "require_input_grad", title, "safe", note, name=made[0].name)
    told = f" ({listing([f'`{n}`' for n in inputs[:3]])})" if inputs else ""
    sure: Confidence = "likely" if strength > 0.5 and not program.evidence.from_text else "possible"
    sure = Proof.NODE.confidence if certain else sure
    text = _UNFLAGGED if seen else _ONE_OF if program.raised and not program.met_none else _UNSEEN
    places = (*spans, *(() if frame else program.raised_span("there is no gradient here")))
    title = _title(inputs, label, seen, program.met_none)
    return Finding(strength, sure, title, text.format(told=told), places, remedies=remedies)


def _title(inputs: list[str], label: str, seen: bool, met_none: bool) -> str:
    if inputs and met_none and not seen:
        return f"`{inputs[0]}.grad` is None where it is used"
    return (
        f"`{inputs[0]}` {label}, but its gradient is asked for" if inputs and (seen or len(inputs) == 1) else PAGE.title
    )


_UNFLAGGED = (
    "The tensor whose gradient is wanted{told} has `requires_grad=False`: no edge of the graph leads to it, so there "
    "is no derivative. The flag has to be set on this tensor itself before the forward that uses it."
)
_ONE_OF = (
    "One of the tensors whose gradients are wanted{told} has `requires_grad=False`: no edge of the graph leads to it, "
    "so there is no derivative. The flag has to be set on that tensor itself before the forward that uses it."
)
_UNSEEN = (
    "The tensor whose gradient is wanted{told} was not at hand when the program failed. One reason for its `.grad` "
    "being None is `requires_grad=False`: the flag has to be set on this tensor itself before the forward that uses it."
)
