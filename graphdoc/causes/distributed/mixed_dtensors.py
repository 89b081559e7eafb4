"""GD810: one operation got plain tensors and DTensors, or DTensors of two meshes: part of the model was not sharded."""

from __future__ import annotations

import ast

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.model import Span
from graphdoc.program.bindings import assignments, call_at, expression_at, frame_of, text_of
from graphdoc.program.library_calls import SHARDING, library_calls
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import place, reached, short_code, span
from graphdoc.remedies.fix_places import through_wrapper
from graphdoc.source.module import is_method_call
from graphdoc.source.paths import only, path_of

PAGE = Page(
    code="GD810",
    title="One operation got plain tensors and DTensors",
    families=("fsdp",),
    what_happened="""\
`fully_shard`, `parallelize_module` and `distribute_module` make the parameters of a module DTensors. An operation got
such a parameter beside a plain tensor, or DTensors of two device meshes:

- **a method of the sharded module was called**, `model.encode(x)`: FSDP2 gathers parameters in a hook of `forward`,
  and no other method has one;
- **`clip_grad_norm_` or a foreach optimizer** got all parameters, of which only a part is sharded, or which lie on two
  meshes;
- **a parameter was used directly**, as in `F.linear(x, model.head.weight)`.""",
    why="""\
A DTensor is one part of a tensor, with the knowledge of where the other parts are. Beside a plain tensor nobody can
tell whether that is a part too, or the same on each rank. So PyTorch refuses instead of guessing.

Inside the forward of a module that FSDP2 has wrapped, parameters are gathered, and plain tensors for that time.""",
    example="""\
fully_shard(model)
z = model.encode(x)  # parameters are shards here
z.square().mean().backward()""",
    use_instead="""\
fully_shard(model)
register_fsdp_forward_method(model, "encode")  # gathers them, as forward does
z = model.encode(x)
z.square().mean().backward()""",
    fix_safety="""\
Safe: `register_fsdp_forward_method` runs the method as FSDP2 runs `forward`. `foreach=False` steps each parameter by
itself, with the same numbers.

Unsafe where a plain tensor meets a DTensor: `DTensor.from_local` takes it for the same whole tensor on each rank. Where
it is a part, its placements belong into the call.

Display only where norms are clipped: shard the rest of the model too, or clip each kind by itself, which bounds two
norms instead of one.""",
    not_this="""\
- An optimizer made before `fully_shard` fails in no way, and trains nothing: `optimizer-holds-stale-parameters`.
- backward meets parameters without memory: `fsdp-hook-dropped`.""",
    references=(
        ("torch.distributed.fsdp.fully_shard", "distributed.fsdp.fully_shard.html"),
        ("torch.distributed.tensor", "distributed.tensor.html"),
    ),
)

_MESSAGES = ("dtensor-mixed", "dtensor-cross-mesh")


def recognise(program: Program) -> Finding | None:
    """The message belongs to this fault alone; who made the call tells which of its faces it is."""
    frame = program.raised_at
    if program.message(*_MESSAGES) is None or program.evidence.from_text or frame is None:
        return None
    if program.raised_in("torch/nn/utils/clip_grad"):
        return _clipped(program, frame)
    if program.raised_in("torch/optim/"):
        return _stepped(program, frame)
    return _past_forward(program) or _used(program, frame)


def _two_kinds(program: Program) -> str:
    return "plain tensors and DTensors" if program.message(_MESSAGES[0]) is not None else "DTensors of two meshes"


def _clipped(program: Program, frame: Frame) -> Finding:
    kinds = _two_kinds(program)
    note = "Clipping each kind by itself works too, but bounds two norms instead of one."
    title = f"`clip_grad_norm_` got gradients of two kinds: {kinds}"
    text = "One norm is taken over all gradients. Those of sharded parameters are DTensors, the others are not on "
    text += "their mesh."
    spans = (span("cause", frame, f"gets {kinds}"), *_sharded(program.sources))
    remedies = (Remedy("shard_all", "shard the rest of the model on the same mesh", "display", note),)
    because = "only a part of these parameters is sharded, or they lie on two meshes"
    return Finding(*Proof.RAISED.at(0.95), title, text, spans, remedies=remedies, because=because)


def _stepped(program: Program, frame: Frame) -> Finding:
    call = call_at(program.sources, frame)
    name = text_of(call.func.value) if is_method_call(call) else ""
    bound = assignments(program.sources, frame, name) if name.isidentifier() else []
    made = only([frame_of(program.sources, frame, v) for _, v in bound if isinstance(v, ast.Call)])
    spans = [span("cause", made, f"`{name}` gets parameters of both kinds")] if made else []
    kinds = _two_kinds(program)
    note = "Each parameter is updated by itself; the numbers are the same."
    title = f"an optimizer steps {kinds} in one operation"
    text = "A foreach optimizer steps all parameters of a group at once, and they are of two kinds."
    places = (*spans, span("failed" if spans else "cause", frame, f"steps {kinds} at once"))
    remedies = remedy_at(made, "set_keyword", "pass `foreach=False`", "safe", note, name="foreach", value="False")
    because = "only a part of these parameters is sharded, or they lie on two meshes"
    return Finding(*Proof.RAISED.at(0.95), title, text, places, remedies=remedies, because=because)


def _past_forward(program: Program) -> Finding | None:
    """A method of a module that ``fully_shard`` has wrapped was called, and not its forward."""
    sources = program.sources
    stack = program.raised.stack if program.raised is not None else []
    for at, frame in enumerate(stack):
        call = call_at(sources, frame) if frame.user and frame.column > 0 else None
        if not is_method_call(call):
            continue
        module, method = text_of(call.func.value), call.func.attr
        wraps = [f for f in library_calls(sources, "fully_shard") if f.file == frame.file]
        wrap = next((f for f in wraps if _first(sources, f) == module), None)
        if wrap is None or _in_forward(stack[at + 1 :]):
            continue
        if method == "forward":
            remedies = through_wrapper(sources, frame, module, "safe", "Its hooks then run.")
        else:
            note = f"FSDP2 then gathers the parameters for `{method}`, as it does for `forward`."
            made = f'torch.distributed.fsdp.register_fsdp_forward_method({module}, "{method}")'
            title = f"register `{method}` with FSDP2"
            remedies = remedy_at(wrap, "add_statement", title, "safe", note, statement=made)
        title = f"`{short_code(sources, frame)}` runs past the hook that gathers the parameters"
        text = f"FSDP2 gathers the parameters of `{module}` in a hook of its `forward`. In `{method}` they are still "
        text += "shards, and an operation got one beside a plain tensor."
        spans = (
            span("cause", frame, f"runs `{method}`, and no hook of FSDP2"),
            span("related", wrap, f"`{module}` is sharded here"),
            *program.raised_span("gets a shard beside a plain tensor"),
        )
        because = f"`{module}` itself was not called, so no hook had gathered its parameters"
        return Finding(*Proof.RAISED.at(0.95), title, text, spans, remedies=remedies, because=because)
    return None


def _in_forward(inside: list[Frame]) -> bool:
    """Whether the method called the forward of its own class, whose hook had gathered the parameters."""
    owner = inside[0].function.rpartition(".")[0] if inside else ""
    return bool(owner) and any(f.function == f"{owner}.forward" for f in inside[1:])


def _first(sources: SourceTexts, frame: Frame) -> str:
    call = call_at(sources, frame)
    return text_of(call.args[0]) if call is not None and call.args else ""


def _used(program: Program, frame: Frame) -> Finding:
    kinds = _two_kinds(program)
    title = "call the sharded module, or `unshard()` it first"
    note = "A plain tensor becomes a DTensor by `DTensor.from_local(x, mesh, placements)`, with its graph."
    code = short_code(program.sources, frame)
    headline = f"`{code}` got {kinds}" if code else PAGE.title
    text = "A sharded parameter is a DTensor outside of the forward of its module. Beside a plain tensor nobody can "
    text += "tell whether that is a part too."
    spans = (span("cause", frame, f"gets {kinds}"), *_sharded(program.sources))
    remedies = _made_whole(program, frame) or (Remedy("call_module", title, "display", note),)
    because = "one operand is a DTensor and another is not on its mesh"
    return Finding(*Proof.RAISED.at(0.9), headline, text, spans, remedies=remedies, because=because)


def _made_whole(program: Program, frame: Frame) -> tuple[Remedy, ...]:
    """One of two operands is a plain tensor by name. Under FSDP2 it is the other one that is wrong: a shard."""
    node = expression_at(program.sources, frame)
    if not isinstance(node, ast.BinOp) or library_calls(program.sources, "fully_shard"):
        return ()
    plain = {r.path for r in reached(program.evidence.extras) if r.type in ("Tensor", "Parameter") and r.shape}
    names = [path_of(side) for side in (node.left, node.right)]
    here = [n for n in names if n in plain]
    other = next((n for n in names if n and n not in plain), "")
    if len(here) != 1 or not other:
        return ()
    made = f"{{torch.distributed.tensor.DTensor.from_local}}({here[0]}, {other}.device_mesh)"
    title = f"make `{here[0]}` a DTensor on the mesh of `{other}`"
    note = "It counts as the same whole tensor on each rank. Of a part, pass its placements too, `[Shard(0)]` say."
    args = {"place": place(frame), "operand": here[0], "name": made, "inside": True}
    whole = f"whether each rank holds the whole of `{here[0]}`, or a part of it, is for you to say"
    return (Remedy("use_instead", title, "unsafe", note, args, whole),)


def _sharded(sources: SourceTexts) -> list[Span]:
    return [span("related", f, "makes parameters DTensors") for f in library_calls(sources, *SHARDING)[:2]]
