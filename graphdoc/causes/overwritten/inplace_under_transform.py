"""GD210: an in-place write under vmap or grad of torch.func goes into a tensor that the transform does not carry."""

from __future__ import annotations

import ast
import re

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, edit_at, remedy_at, together
from graphdoc.program.bindings import assignments, call_at, frame_of, function_at, names_in, text_of, tree_at
from graphdoc.program.expression_values import known
from graphdoc.program.library_calls import library_calls
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import innermost_user, place, span
from graphdoc.program.writers import target_of
from graphdoc.remedies.fix_places import applies
from graphdoc.source.module import each
from graphdoc.source.paths import last_word
from graphdoc.source.scopes import function_of, parameters
from graphdoc.story.message_alone import from_message

PAGE = Page(
    code="GD210",
    title="An in-place write under a torch.func transform goes into a tensor from outside",
    families=("functorch",),
    what_happened="""\
A function that `torch.vmap` or `torch.func.grad` transforms writes in place into a tensor that the transform does not
carry:

- **under vmap**, a target made with `torch.zeros(...)`: it has no batch dimension, and values of a whole batch are
  written into it;
- **under grad, vjp or jvp**, a tensor from outside of the function: a buffer, a global, an attribute;
- **BatchNorm in training mode**, which is the same: its running statistics and its counter are buffers, and each
  forward updates them.""",
    why="""\
Under vmap a mapped tensor stands for all examples at once. One without the batch dimension has room for one example.

`grad` differentiates the function by its arguments. A write into something else would be an effect that no derivative
sees, and that would keep a tensor of the transform alive outside of it.""",
    example="""\
def prefix_sums(x):
    out = torch.zeros(x.shape)
    for i in range(len(x)):
        out[i] = x[: i + 1].sum()
    return out

torch.vmap(prefix_sums)(batch)""",
    use_instead="""\
def prefix_sums(x):
    out = x.new_zeros(x.shape)  # batched, as `x` is
    for i in range(len(x)):
        out[i] = x[: i + 1].sum()
    return out

torch.vmap(prefix_sums)(batch)""",
    fix_safety="""\
Safe for the target: `x.new_zeros(...)` holds the same numbers with the dtype and device of `x`, once for each example.

Safe for a tensor from outside, and for the buffers of a module under `functional_call`: passed as an argument of the
transformed function, which the transform wraps, they are changed as they would be without it.

Unsafe for BatchNorm: `track_running_stats=False` normalises by each batch, in evaluation too.
`torch.func.replace_all_batch_norm_modules_(net)` does that to a net that was made elsewhere. GroupNorm needs
no batch.""",
    not_this="""\
- The write is refused outside of any transform: `inplace-on-leaf` or `inplace-on-view`.
- backward complains of it later: `inplace-on-saved-activation`.""",
    references=(
        ("torch.func limitations", "func.ux_limitations.html"),
        ("Patching batch norm", "func.batch_norm.html"),
    ),
)

_UNBATCHED = ("vmap-inplace", "vmap-inplace-unbatched")
_BROADCAST = "inplace-broadcast-shape"
_CAPTURED = ("func-inplace-captured", "vmap-batchnorm")
_FACTORIES = frozenset({"zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like"})
_REACHES = "The transform wraps its arguments, and a write into one reaches the tensor itself."
_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")


def recognise(program: Program) -> Finding | None:
    """One of these messages; what was written, where that was made, and whether BatchNorm did it."""
    unbatched = program.message(*_UNBATCHED) is not None or _lacks_the_batch(program)
    if not unbatched and program.message(*_CAPTURED) is None:
        return None
    frame = program.raised_at
    if frame is None or program.evidence.from_text:
        return from_message("inplace-under-transform", PAGE.title, *_UNBATCHED, *_CAPTURED)(program)
    if program.raised_in("torch/nn/modules/batchnorm"):
        return _norm(program, frame)
    return _unbatched(program, frame) if unbatched else _captured(program, frame)


def _lacks_the_batch(program: Program) -> bool:
    """Whether a write under vmap would have had to add one dimension to the target, in front."""
    shape, wanted = (re.findall(r"\d+", program.field(name, _BROADCAST)) for name in ("shape", "shape2"))
    return len(wanted) == len(shape) + 1 and wanted[1:] == shape and program.raised_in("torch/_functorch/vmap")


def _norm(program: Program, frame: Frame) -> Finding:
    made = library_calls(program.sources, *_NORMS)
    spans = [span("cause", f, "updates its running statistics in each forward") for f in made[:3]]
    edits = [edit_at("set_keyword", f, name="track_running_stats", value="False") for f in made]
    note = "It normalises by each batch, in evaluation too, and keeps no running statistics."
    remedies = [*_passed(program), *together(edits, "let BatchNorm keep no running statistics", "unsafe", note)]
    if not remedies:
        title = "call `torch.func.replace_all_batch_norm_modules_(net)` after `net` is made"
        remedies = [Remedy("replace_norms", title, "display", note)]
    title = "BatchNorm updates its buffers under a torch.func transform"
    text = "In training mode BatchNorm writes its running statistics and its counter in place. They are no arguments "
    text += "of the transformed function, so the write is refused."
    places = (*spans, span("failed" if spans else "cause", frame, "this forward updates its buffers"))
    because = "BatchNorm wrote a buffer in place, and the transform does not carry it"
    return Finding(*Proof.RAISED.at(0.95), title, text, places, remedies=tuple(remedies), because=because)


def _unbatched(program: Program, frame: Frame) -> Finding:
    sources = program.sources
    path = target_of(program.evidence, frame).path
    made = _factory(sources, frame, path)
    name = f"`{path}`" if path else "the target"
    spans = [span("failed" if made else "cause", frame, f"writes values of a whole batch into {name}")]
    remedies: tuple[Remedy, ...] = ()
    if made is not None:
        place_made, call = made
        spans.insert(0, span("cause", place_made, "made without the batch dimension of vmap"))
        tensor = _mapped(program, frame, call, path)
        if tensor and not last_word(call.func).endswith("_like"):
            remedies = remedy_at(
                place_made,
                "use_instead",
                f"make {name} from `{tensor}`",
                "safe",
                f"It holds the same numbers, once for each example that `{tensor}` stands for.",
                operand=text_of(call.func),
                name=f"{tensor}.new_{last_word(call.func)}",
                inside=True,
                same=True,
            )
    weight = Proof.RAISED.at(0.95, program.message(*_UNBATCHED) is not None)
    title = f"{name} has no batch dimension, and vmap writes a batch into it" if path else PAGE.title
    text = "Under vmap a mapped tensor stands for all examples at once. What is made from sizes alone has room for one."
    ways = remedies or (
        Remedy("out_of_place", "build the value out of place, or make the target from a mapped tensor", "display"),
    )
    because = f"{name} is not mapped over, and what is written into it is"
    return Finding(*weight, title, text, tuple(spans), remedies=ways, because=because)


def _captured(program: Program, frame: Frame) -> Finding:
    path = target_of(program.evidence, frame).path
    name = f"`{path}`" if path else "a tensor"
    title = f"the transformed function changes {name}, which is none of its arguments"
    text = "A transform of torch.func differentiates a function by its arguments. It refuses an in-place write into "
    text += "anything else."
    spans = (span("cause", frame, f"changes {name} in place"),)
    remedies = _passed(program, path) or (Remedy("argument", f"pass {name} as an argument", "display", _REACHES),)
    because = f"{name} is no argument of the transformed function"
    return Finding(*Proof.RAISED.at(0.95), title, text, spans, remedies=remedies, because=because)


def _passed(program: Program, path: str = "") -> tuple[Remedy, ...]:
    """Pass the name that is changed to the transformed function, or the buffers of the module that it runs."""
    stack = program.raised_stack
    inner = next((i for i, f in enumerate(stack) if "torch/_functorch/" in f.file.replace("\\", "/")), len(stack))
    calling = innermost_user(stack[:inner])
    running = next((f for f in stack[inner:] if f.user), None)
    if calling is None or running is None or any(f.function.endswith("vmap_impl") for f in stack):
        return ()  # under vmap it would have to be told that the new argument is not mapped
    call = call_at(program.sources, running)
    if call is not None and last_word(call.func) == "functional_call" and call.args:
        name, title = "", f"pass the buffers of `{text_of(call.args[0])}` to the transformed function"
    elif path.isidentifier() and running == program.raised_at:
        name, title = path, f"pass `{path}` to the transformed function"
    else:
        return ()
    args = {"place": place(running), "calling": place(calling), "name": name}
    remedy = Remedy("pass_captured", title, "safe", _REACHES, args)
    return (remedy,) if applies(program.sources, remedy) else ()


def _factory(sources: SourceTexts, frame: Frame, path: str) -> tuple[Frame, ast.Call] | None:
    """Where the target is made by one call of a factory, in the same function."""
    bound = assignments(sources, frame, path) if path.isidentifier() else []
    if len(bound) != 1 or not isinstance(bound[0][1], ast.Call):
        return None
    call = bound[0][1]
    of, _, name = function_of(tree_at(sources, frame), call).rpartition(".")
    if of != "torch" or name not in _FACTORIES:
        return None
    return frame_of(sources, frame, call), call


def _mapped(program: Program, frame: Frame, call: ast.Call, path: str) -> str:
    """An argument of the function around: one that gives the target its size, or one that is written into it; first
    those that the run saw to be tensors."""
    function = function_at(program.sources, frame)
    if function is None:
        return ""
    given = parameters(function)
    statement = next((n for n in each(function, ast.stmt) if _at(n, frame.line)), None)
    read = [n.partition(".")[0] for n in (*names_in(call), *names_in(statement))]
    named = [n for n in read if n in given and n not in (path, "self")]
    return min(named, key=lambda n: known(program, frame.file, frame.function, n) != "tensor", default="")


def _at(node: ast.stmt, line: int) -> bool:
    simple = isinstance(node, ast.Assign | ast.AugAssign | ast.Expr)
    return simple and node.lineno <= line <= (node.end_lineno or node.lineno)
