"""Where the program calls PyTorch's own functions, told by what each file's imports bind, not by a name alone."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from graphdoc.evidence import Cut, Event, Frame, Node, Raised, Sign, SourceTexts
from graphdoc.messages import Match, recognise
from graphdoc.model import Confidence, Span
from graphdoc.program import bindings
from graphdoc.program.bindings import argument, call_at, dotted, frame_of, text_of, tree
from graphdoc.program.spans import code_at, innermost, innermost_user, span_of
from graphdoc.source.module import walked
from graphdoc.source.paths import last_word, without_subscripts

if TYPE_CHECKING:
    from graphdoc.program.observed import Program


def library_calls(sources: SourceTexts, *names: str) -> list[Frame]:
    """Every call, and every bare decorator, of a function of PyTorch's that has one of these names.

    A name that the file imports from elsewhere (``re.compile``) or binds itself (``def checkpoint``, a method of
    ``self``) is none of PyTorch's. One that the file does not bind at all (``from x import *``) is taken at its word.
    """
    found: list[Frame] = []
    for file in sources:
        root = tree(sources, file)
        if root is None:
            continue
        imported, own = _imported(root), _bound(root)
        for node in _called(root):
            first, _, rest = text_of(node.func if isinstance(node, ast.Call) else node).partition(".")
            if first in imported:
                whole = f"{imported[first]}.{rest}".rstrip(".")
                is_torchs = whole.split(".")[0] == "torch"
            else:
                whole = rest or first
                is_torchs = first not in own and not hasattr(builtins, first)
            if is_torchs and whole.rpartition(".")[2] in names:
                found.append(frame_of(sources, file, node))
    return found


def _called(root: ast.Module) -> Iterator[ast.expr]:
    for node in walked(root):
        if isinstance(node, ast.Call):
            yield node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from (d for d in node.decorator_list if not isinstance(d, ast.Call))


def _imported(root: ast.Module) -> dict[str, str]:
    """What each imported name stands for, in full: ``ckpt`` for ``torch.utils.checkpoint``."""
    found: dict[str, str] = {}
    for node in walked(root):
        if isinstance(node, ast.Import):
            found.update({a.asname: a.name for a in node.names if a.asname})
            found.update({first: first for a in node.names if not a.asname and (first := a.name.split(".")[0])})
        elif isinstance(node, ast.ImportFrom):
            found.update({a.asname or a.name: f"{'.' * node.level}{node.module or ''}.{a.name}" for a in node.names})
    return found


def _bound(root: ast.Module) -> set[str]:
    """The names that the file itself binds: functions, classes, arguments, variables."""
    found: set[str] = set()
    for node in walked(root):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


# The exception of an evidence document: which known message it is, how far it can be trusted, where it was raised.
# The text is read in one place, ``graphdoc.messages``; here are its answers. What PyTorch does not word itself (an
# ordinary ``TypeError`` of Python about a None) is read here and nowhere else.

LONGEST = 20_000
"""Characters of a message that are looked at: a pasted log may hold megabytes after its first line."""

SECOND_TIME = ("backward-second-time", "saved-tensor-access-after-free-ctx", "legacy-buffers-freed")
VERSION = ("inplace-version-mismatch", "inplace-version-mismatch-anomaly")
REFUSED_VIEW = ("view-multi-output-inplace", "view-base-modified-multi-output")
NO_GRAPH = ("no-grad-fn", "legacy-no-graph-nodes")
NON_LEAF_GRAD = ("nonleaf-grad", "legacy-nonleaf-grad-warning")
SEVERAL_VIEWS = ("view-multi-output-inplace", "modify-views-inplace-single")
INFERENCE = (
    "inference-save-for-backward",
    "inference-inplace",
    "inference-requires-grad",
    "inference-version-counter",
    "inference-set-version",
)
"""Ids of messages (messages/patterns.json) that several places ask for."""

_MET_NONE = re.compile(
    r"'NoneType' object|unsupported operand type\(s\) for [^:]{1,20}:[^\n]{0,80}NoneType|must be Tensor, not NoneType"
)
_UNPACKED = re.compile(r"(?:not enough|too many) values to unpack")


def messages(raised: Raised | None) -> tuple[Match, ...]:
    """The known messages in the exception, then those of the exceptions behind it."""
    if raised is None:
        return ()
    texts = (raised.message, *raised.causes)
    return tuple(m for text in texts for m in recognise(text[:LONGEST]))


def called_by_autograd(raised: Raised | None) -> bool:
    """Whether it was torch.autograd that made the call which failed; True where no traceback tells."""
    stack = raised.stack if raised is not None else []
    return not stack or "torch/autograd/" in stack[-1].file.replace("\\", "/")


def message_of(raised: Raised | None, *ids: str) -> Match | None:
    """The first of the known messages that is one of these, with its named fields; or None."""
    return next((m for m in messages(raised) if {m.id, *m.also} & {*ids}), None)


def can_go_on(raised: Raised | None) -> bool:
    """Whether the program as it is written can be made to go on behind this failure, with the gradients that it is to
    have: what is freed is kept, and what is overwritten is copied before."""
    return message_of(raised, *SECOND_TIME, *VERSION, *REFUSED_VIEW) is not None


def field_of(raised: Raised | None, name: str, *ids: str) -> str:
    """A named field of the first of these messages that has it; empty where none does."""
    found = (m.fields.get(name, "") for m in messages(raised) if {m.id, *m.also} & {*ids})
    return next((text for text in found if text), "")


def first_line(message: str) -> str:
    """The first line of the exception's text, for a fact."""
    return next(iter(message[:LONGEST].strip().splitlines()), "")[:160]


def met_none(message: str) -> bool:
    """Whether Python itself complained of a None where a tensor was expected."""
    return _MET_NONE.search(message[:LONGEST]) is not None


def unpacked_wrongly(message: str) -> bool:
    """Whether more or fewer values were unpacked than there were."""
    return _UNPACKED.search(message[:LONGEST]) is not None


def warned(warnings: list[str], *ids: str) -> bool:
    """Whether the run gave one of these known warnings."""
    return any(_is(w, ids) for w in warnings)


def warned_at(from_text: bool, warnings: list[str], frame: Frame, *ids: str) -> bool:
    """Whether the run gave one of these for the line of ``frame``; a pasted warning need not name its line."""
    own = f"{frame.file}:{frame.line}:"
    return any(_is(w, ids) for w in warnings if from_text or own in w)


def _is(text: str, ids: tuple[str, ...]) -> bool:
    return any({m.id, *m.also} & {*ids} for m in recognise(text[:LONGEST]))


def weight(from_text: bool, strength: float, confidence: Confidence) -> tuple[float, Confidence]:
    """What a message proves: ``strength`` where this very run raised it, less where it was only pasted."""
    if not from_text:
        return strength, confidence
    return min(strength, 0.45), "likely" if confidence == "certain" else "possible"


def raised_at(raised: Raised | None) -> Frame | None:
    """The innermost frame of the user's code in the traceback."""
    return innermost(raised.stack) if raised else None


def raised_span(sources: SourceTexts, raised: Raised | None, label: str) -> tuple[Span, ...]:
    """Where the exception was noticed, as a span with role ``failed``; empty where there is no traceback."""
    return span_of("failed", raised.stack, label, sources) if raised else ()


def events_before_failure(events: list[Event], failing_call: Event | None) -> list[Event]:
    """The journal up to the call that failed, oldest first."""
    last = failing_call
    return [e for e in events if not e.failed and (last is None or e.index < last.index)]


# Activation checkpoints: where the program asks for them, of which kind they are, and what ran inside of one.


def checkpoint_calls(sources: SourceTexts) -> list[Frame]:
    """Every call of ``torch.utils.checkpoint`` in the sources."""
    return library_calls(sources, "checkpoint", "checkpoint_sequential")


def reentrant_calls(sources: SourceTexts) -> list[Frame]:
    """Those that are not written as non-reentrant: without the keyword PyTorch takes the reentrant form, with a
    warning (torch/utils/checkpoint.py)."""
    return [f for f in checkpoint_calls(sources) if "use_reentrant=False" not in code_at(sources, f)]


def checkpointed(sources: SourceTexts, call: Frame) -> str:
    """What a call hands to the checkpoint, by its name: ``self.block``; empty where it is no plain name, or where the
    place is no such call but what leads to one."""
    if not any(f.start == call.start for f in checkpoint_calls(sources)):
        return ""
    given = argument(call_at(sources, call), 0, "function")
    return dotted(given) if given is not None else ""


def reentrant_fails(program: Program) -> bool:
    """Whether a reentrant checkpoint is what this run failed by: it has cut the graph off, or refused to go on."""
    if program.message("checkpoint-no-output-grad") or program.message("checkpoint-grad-incompatible"):
        return True
    cut = any(by_checkpoint(c) for c in program.cuts) or warned(program.evidence.warnings, "checkpoint-no-input-grad")
    return cut and message_of(program.raised, *NO_GRAPH) is not None


def ran_inside(nodes: list[Node]) -> set[tuple[str, str]]:
    """The user's functions that ran below a checkpoint in the failing graph, as (file, function)."""
    found: set[tuple[str, str]] = set()
    for node in nodes:
        at = next((i for i, f in enumerate(node.stack) if _is_checkpoints(f)), None)
        if at is not None:
            found |= {(f.file, f.function) for f in node.stack[at:] if f.user}
    return found


def in_checkpoint(stack: Sequence[Frame]) -> bool:
    """Whether a stack passes through ``torch.utils.checkpoint``."""
    return any(_is_checkpoints(f) for f in stack)


def by_checkpoint(cut: Cut) -> bool:
    """Whether the checkpoint itself has cut here, by its own ``no_grad``, and no switch of the user's inside it."""
    return in_checkpoint(cut.stack) and (not cut.switch or in_checkpoint(cut.switch[-1:]))


def outside(stack: Sequence[Frame]) -> list[Frame]:
    """The part of a stack outside of the checkpoint, so that its innermost user frame is the checkpoint's call."""
    at = next((i for i, f in enumerate(stack) if _is_checkpoints(f)), len(stack))
    return list(stack[:at])


def _is_checkpoints(frame: Frame) -> bool:
    return frame.file.replace("\\", "/").endswith("torch/utils/checkpoint.py")


# Whether what a run that went on has shown is worth a second, slower look: asked of the source.

_ENDS = ("detach", "detach_", "no_grad", "item", "tolist", "numpy")
_NUMBERS = ("item", "tolist")
_ARRAYS = ("tolist", "numpy")
_TERM_ENDS = ("detach", "argmax", "argmin", "round", "sign", "floor", "ceil", "histc", "bincount")
_WITH_A_PATH = ("Normal", "LogNormal", "MultivariateNormal", "Laplace", "Gamma", "Beta", "Dirichlet", "StudentT")
_MAKERS = ("tensor", "as_tensor", "FloatTensor", "Variable")


def suspicious(sources: SourceTexts, signs: list[Sign]) -> bool:
    """Whether the program loses a graph somewhere in a way that could explain a sign of this run."""
    kinds = {s.kind for s in signs}
    if "suspect-term" in kinds and any(_adds_a_value(sources, s) for s in signs if s.kind == "suspect-term"):
        return any(_loses(node) for node in _nodes(sources))
    if "suspect-unused" in kinds:
        return any(_cuts(node) for node in _nodes(sources))
    if "suspect-hungry" in kinds:
        return any(_is_called(node, _ENDS) for node in _nodes(sources))
    if "suspect-part" in kinds and all(s.weak for s in signs) and _draws_with_a_path(sources):
        return True
    return "suspect-unreached" in kinds and any(_makes_leaf(node) or _draws(node) for node in _nodes(sources))


def may_be_constant(sources: SourceTexts, signs: list[Sign]) -> bool:
    """The same by what is everyday elsewhere: a term that is detached or decided, features as a list of numbers."""
    kinds = {s.kind for s in signs}
    if any(_adds_a_value(sources, s) for s in signs if s.kind == "suspect-term"):
        return any(_is_called(node, _TERM_ENDS) for node in _nodes(sources))
    return "suspect-unreached" in kinds and any(_is_called(node, _ARRAYS) for node in _nodes(sources))


def left_unrecorded(warnings: list[str], signs: list[Sign]) -> bool:
    """Whether parameters without gradient may stand in blocks that a reentrant checkpoint, as PyTorch has warned, ran
    without recording: none of the inputs required gradients."""
    return any(s.kind == "suspect-unreached" for s in signs) and warned(warnings, "checkpoint-no-input-grad")


def goes_around(sources: SourceTexts, signs: list[Sign]) -> bool:
    """Whether parameters without gradient may enter the loss in the detached part of a straight-through sum alone."""
    return any(s.kind == "suspect-unreached" for s in signs) and any(_is_estimator(n) for n in _nodes(sources))


def writes_through_data(sources: SourceTexts, signs: list[Sign]) -> bool:
    """Whether parameters moved before a backward call with no version telling, and not only by what the program writes
    to ``.data`` right behind a step, where clipping weights and their like belong, or by steps of its own making."""
    if not any(s.kind == "suspect-write" for s in signs):
        return False
    roots = [bindings.tree(sources, file) or ast.Module([], []) for file in sources]
    every = [(root, node) for root in roots for node in walked(root) if _writes_data(node)]
    writes = [(root, node) for root, node in every if not _uses_gradient(node)]
    return not every or any(
        not _is_behind_a_step(bindings.function_around(root, _line(node)) or root, node) for root, node in writes
    )


def _writes_data(node: ast.AST) -> bool:
    """``p.data.copy_(x)``, ``p.data[0] = x``, ``p.data += x``; ``p.data = x`` leaves the old memory alone."""
    written: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        written = node.func.value
    elif isinstance(node, ast.AugAssign):
        written = node.target
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        written = node.targets[0]
    base = without_subscripts(written) if written is not None else None
    return isinstance(base, ast.Attribute) and base.attr == "data"


def _uses_gradient(node: ast.AST) -> bool:
    """``p.data -= rate * p.grad``, which belongs behind the backward call as a step does."""
    return any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in walked(node))


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _is_behind_a_step(scope: ast.AST, node: ast.AST) -> bool:
    """Whether the nearest call of ``step`` or ``backward`` above, in the same function, is a step, or one by hand."""
    calls = [(_line(n), "step") for n in walked(scope) if _writes_data(n) and _uses_gradient(n)]
    calls += [
        (_line(n), n.func.attr)
        for n in walked(scope)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in ("step", "backward")
    ]
    above = sorted(c for c in calls if c[0] < _line(node))
    return bool(above) and above[-1][1] == "step"


def _nodes(sources: SourceTexts) -> Iterator[ast.AST]:
    for file in sources:
        yield from walked(bindings.tree(sources, file) or ast.Module([], []))


def _adds_a_value(sources: SourceTexts, sign: Sign) -> bool:
    """Whether both sides of the addition are more than plain numbers, as far as the source tells."""
    frame = innermost_user(sign.stack)
    root = bindings.tree(sources, frame.file) if frame is not None else None
    if frame is None or root is None:
        return False
    scope = bindings.function_around(root, frame.line) or root
    for node in walked(root):
        at = (getattr(node, "lineno", 0), getattr(node, "col_offset", -2) + 1)
        if at != (frame.line, frame.column):
            continue
        if isinstance(node, ast.BinOp | ast.AugAssign):
            sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.target, node.value]
            return bool(sign.facts.get("several")) or not any(_is_number(side, scope, node) for side in sides)
        if isinstance(node, ast.Call) and bindings.text_of(node.func) == "sum":
            return True
    return False


def _is_number(node: ast.expr, scope: ast.AST, addition: ast.AST) -> bool:
    """Whether one side of an addition is a plain number, as far as the source tells.

    A name that begins as a number and has values added is one where the first of them is added, and a value behind.
    """
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand, scope, addition)
    if not isinstance(node, ast.Name):
        return isinstance(node, ast.Constant)
    starts: list[ast.Assign | ast.AugAssign] = []
    adds: list[ast.Assign | ast.AugAssign] = []
    for n in walked(scope):
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name) and n.target.id == node.id:
            adds.append(n)
        elif isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in n.targets):
            if not isinstance(n.value, ast.Constant) and node.id not in bindings.names_in(n.value):
                return False  # it is given another value
            (starts if isinstance(n.value, ast.Constant) else adds).append(n)
    adds = [n for n in adds if not isinstance(n.value, ast.Constant)]
    first = min(adds, key=_line, default=None)
    return bool(starts) and (first is None or any(n is addition for n in walked(first)))


def _loses(node: ast.AST) -> bool:
    """``x.data`` that is no gradient's and is read, ``torch.tensor(x)`` of a name, a gradient without a graph."""
    if isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.ctx, ast.Load):
        return not bindings.text_of(node.value).endswith(".grad")
    if not isinstance(node, ast.Call):
        return False
    name = bindings.dotted(node.func)
    if name.endswith("autograd.grad"):
        return not any(k.arg == "create_graph" for k in node.keywords)
    last = name.rpartition(".")[2]
    if isinstance(node.func, ast.Attribute) and node.func.attr in _NUMBERS and not node.args:
        return True
    return last in _MAKERS and bool(node.args) and isinstance(node.args[0], ast.Name | ast.ListComp | ast.List)


def _cuts(node: ast.AST) -> bool:
    """Anything that ends a graph: asked only where a loss passes by the optimizer that steps for it."""
    return _is_called(node, _ENDS) or _loses(node) or _makes_leaf(node)


def _is_called(node: ast.AST, names: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Call) and last_word(node.func) in names


def _makes_leaf(node: ast.AST) -> bool:
    """``torch.tensor(model(x)…, requires_grad=True)``, ``torch.tensor(losses, requires_grad=True)``, and a value that
    is cut off and let require gradients: ``model(x).detach().requires_grad_()``."""
    if isinstance(node, ast.Call) and last_word(node.func) == "requires_grad_":
        return any(last_word(n) in ("detach", "data") for n in walked(node.func) if isinstance(n, ast.Attribute))
    if not isinstance(node, ast.Call) or bindings.dotted(node.func).rpartition(".")[2] not in _MAKERS:
        return False
    wanted = any(
        k.arg == "requires_grad" and isinstance(k.value, ast.Constant) and k.value.value for k in node.keywords
    )
    if not wanted or not node.args:
        return False
    # The whole of it kept under a name may be what a network has computed.
    given = node.args[0]
    return isinstance(given, ast.Name | ast.Attribute) or any(isinstance(n, ast.Call) for n in walked(given))


def _draws(node: ast.AST) -> bool:
    """``distribution.sample()``, which gives numbers without a graph; a memory is told how many to draw."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sample"
    return called and not node.args and not node.keywords  # type: ignore[attr-defined]


def _draws_with_a_path(sources: SourceTexts) -> bool:
    """Whether ``sample()`` is called, and a distribution is made that has ``rsample``: others give decisions."""
    made = any(_is_called(node, _WITH_A_PATH) for node in _nodes(sources))
    return made and any(_draws(node) for node in _nodes(sources))


def _is_estimator(node: ast.AST) -> bool:
    """``x + (z - x).detach()``: the value of one, the gradient of the other."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    for kept, cut in ((node.left, node.right), (node.right, node.left)):
        inner = cut.func if isinstance(cut, ast.Call) else cut
        if not isinstance(inner, ast.Attribute) or inner.attr not in ("detach", "data"):
            continue
        difference = inner.value
        if isinstance(difference, ast.BinOp) and isinstance(difference.op, ast.Sub):
            return ast.unparse(difference.right) == ast.unparse(kept)
    return False
