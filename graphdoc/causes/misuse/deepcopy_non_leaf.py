"""GD503: copy.deepcopy met a tensor that is the result of an operation."""

from __future__ import annotations

import ast
import re
from typing import Any

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import Reached, reached, span, span_of
from graphdoc.source.module import each
from graphdoc.source.paths import covers, is_attribute, is_read
from graphdoc.story.message_alone import of_message
from graphdoc.story.wording import listing

PAGE = Page(
    code="GD503",
    title="`copy.deepcopy` met a tensor that is the result of an operation",
    what_happened="""\
An object was deep-copied: a model for an exponential moving average or a target network, a best checkpoint, a list of
layers. Somewhere in it lies a tensor with a graph. Parameters are leaves and can be copied; what stands in the way is
a result that some forward has left behind: `self.last_attention = ...` for a plot, a cached feature, a hidden state,
an auxiliary loss, the weight that the old `torch.nn.utils.weight_norm` computes before each forward.

So it depends on whether a forward has run. The copy of the fresh model works, that of the used one fails.""",
    why="""\
A deep copy of a result would have to copy its graph, down to the parameters, and then it would no longer be
clear whose gradients it computes. PyTorch copies leaves only: *Only Tensors created explicitly by the user (graph
leaves) support the deepcopy protocol at the moment*. The message names neither the attribute nor the module.

Calling `backward()` first does not help: the tensor keeps its `grad_fn` when the graph has been freed.""",
    example="""\
class Gate(nn.Module):
    def forward(self, x):
        self.last_map = torch.sigmoid(self.score(x))  # stays in the module, with its graph
        return x * self.last_map


ema = copy.deepcopy(model)""",
    use_instead="""\
class Gate(nn.Module):
    def forward(self, x):
        gate = torch.sigmoid(self.score(x))
        self.last_map = gate.detach()  # for looking at
        return x * gate


ema = copy.deepcopy(model)""",
    fix_safety="""\
Safe where the attribute is only looked at: keep a detached copy, and use the live tensor in the forward. This also
frees the memory of the last graph.

Unsafe where the attribute is used later in a loss (an auxiliary loss that the trainer collects from the modules):
return it from the forward, or clear it before the copy (proposed first where the program reads the
attribute: it computes with it).

If only the weights are wanted, copy those: `new.load_state_dict(old.state_dict())`. For an average of weights
`torch.optim.swa_utils.AveragedModel` exists (it deep-copies, too). Replace `torch.nn.utils.weight_norm` by
`torch.nn.utils.parametrizations.weight_norm`, which leaves no result in the module.""",
    not_this="""\
- A tensor cannot be sent to another process (*Cowardly refusing to serialize non-leaf tensor*): the same rule, in
  `torch.multiprocessing`. Detach it before it is sent.
- Pickling fails on a lambda or a lock: that has nothing to do with gradients.""",
    references=(
        "Tensor.is_leaf",
        ("torch.optim: weight averaging", "optim.html#weight-averaging-swa-and-ema"),
        "torch.nn.utils.parametrizations.weight_norm",
    ),
)


@of_message("deepcopy-non-leaf")
def recognise(program: Program) -> Finding:
    """The message, and which result lies in what is copied: from the run, or from what forwards store in the source."""
    frame = program.raised_at
    copied = bindings.text_of(bindings.argument(bindings.call_at(program.sources, frame), 0, "x"))
    found, proven = _inside(program.evidence.extras, copied)
    made = [(f"`{t.path}`", _store(program.sources, t) or t.made) for t in found if t.made]
    stored = [(n, f) for n, f in made if f] or [(f"`{n}`", f) for n, f in _stored_in(program.sources, copied)]
    label = "holds the result of an operation" if made and proven else "may hold the result of an operation"
    at: dict[tuple[str, int], tuple[str, Frame]] = {}  # many layers keep theirs by one statement
    for name, made_at in stored:
        statement = _statement(program.sources, made_at)
        at.setdefault((statement.file, statement.line), (name, statement))
    places = [span("cause", f, f"{n} {label}") for n, f in list(at.values())[:2]]
    here = span_of("failed" if places else "cause", frame, "copied here")
    facts = tuple(f"{t.path} is no leaf: made by `{t.op}`" for t in found[:3])
    inside = any("[" in t.path for t in found)  # of a container that the statement stores
    only = made[0][1] if len(at) == 1 and not inside else None
    title = (
        f"`copy.deepcopy()` cannot copy {listing(f'`{t.path}`' for t in found)}, made by an operation"
        if found and proven
        else PAGE.title
    )
    text = "The copied object holds the result of an operation, with its graph. Only leaves can be copied: keep a "
    text += "detached copy of that result instead of the live tensor."
    spans = (*places, *here, *(program.raised_span("copied here") if not here else ()))
    remedies = _remedies(program.sources, frame, copied, found if proven else [], only)
    return Finding(*program.weight(0.95, Proof.NODE.where(bool(found) and proven)), title, text, spans, facts, remedies)


def _remedies(
    sources: SourceTexts, frame: Frame | None, copied: str, found: list[Reached], only: Frame | None
) -> tuple[Remedy, ...]:
    """Detach what is kept, or clear it before the copy: that one first where the program reads it, since it computes
    with what it reads."""
    title = "Keep only a detached copy of this result"
    note = "The module's own computation keeps its gradient; what is read from the attribute later has none."
    detached = remedy_at(_statement(sources, only) if only else None, "detach_stored", title, "unsafe", note)
    kept = [t.path for t in found if copied and re.fullmatch(re.escape(copied) + r"(\.[A-Za-z_]\w*)+", t.path)]
    if len(kept) != 1 or len(found) != 1:
        return detached
    fix = f"Clear `{kept[0]}` before the copy"
    effect = "The copy and what is copied have None there until the next forward sets it; every gradient stays as it "
    effect += "is."
    cleared = remedy_at(frame, "add_statement", fix, "unsafe", effect, statement=f"{kept[0]} = None", before=True)
    return (*cleared, *detached) if _read_as_attribute(sources, kept[0]) else (*detached, *cleared)


def _read_as_attribute(sources: SourceTexts, path: str) -> bool:
    """Whether the program reads an attribute of this name: ``hidden = self.hidden`` in a method, ``net.map`` in a loss
    that it forms later on."""
    name = path.rpartition(".")[2]
    return any(isinstance(n, ast.Attribute) and is_read(n) and n.attr == name for _, n in bindings.everywhere(sources))


def _inside(extras: dict[str, Any], copied: str) -> tuple[list[Reached], bool]:
    """Results with a graph that lie below the copied object, and True; all that were found where it was not looked
    into, and False.
    """
    results = [t for t in reached(extras) if t.requires_grad and not t.is_leaf]
    below = [t for t in results if copied and (t.path == copied or t.path.startswith((copied + ".", copied + "[")))]
    if copied and any(t.path.split(".")[0].split("[")[0] == copied.split(".")[0] for t in results):
        return below, True  # the run has looked there: what lies elsewhere is not copied
    held = [t for t in results if "." in t.path or "[" in t.path]
    return (below, True) if below else (held or results, False)


def _store(sources: SourceTexts, tensor: Reached) -> Frame | None:
    """The statement that keeps it: ``self.last = h`` for ``net.last``, the one in the function that made it if several.

    The tensor may have been made lines before, under a local name.
    """
    attribute = tensor.path.partition("[")[0].rpartition(".")[2]
    made = tensor.made
    if made is None or "." not in tensor.path or not attribute.isidentifier():
        return None
    root = bindings.tree(sources, made.file)
    around = bindings.function_around(root, made.line)
    found = [
        n
        for n in each(root, ast.Assign)
        if not isinstance(n.value, ast.Constant)
        if any(is_attribute(t, attribute) for t in n.targets)
    ]
    inside = [n for n in found if around is not None and covers(around, n.lineno)]
    one = inside or found
    return bindings.frame_of(sources, made.file, one[0]) if len(one) == 1 else None


def _stored_in(sources: SourceTexts, copied: str) -> list[tuple[str, Frame]]:
    """Statements that put the result of a call into the copied object: ``state["hidden"] = cell(...)``."""
    found: list[tuple[str, Frame]] = []
    for file, node in bindings.everywhere(sources):
        target = node.targets[0] if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) else None
        if isinstance(target, ast.Subscript | ast.Attribute) and bindings.text_of(target.value) == copied:
            found.append((bindings.text_of(target), bindings.frame_of(sources, file, node)))
    return found


def _statement(sources: SourceTexts, frame: Frame) -> Frame:
    """The whole assignment that the frame lies in, so that the span shows what is stored where."""
    around = [n for n in each(bindings.tree(sources, frame.file), ast.Assign) if covers(n, frame.line)]
    return bindings.frame_of(sources, frame.file, around[0]) if around else frame
