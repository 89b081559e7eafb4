"""Two losses of one pass that each train a network of its own, and take the other's output as something to aim at."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from graphdoc.evidence import Event, Evidence, Frame, Node, OlderEdge, SourceTexts
from graphdoc.evidence.lookup import node_with
from graphdoc.program.bindings import argument, frame_of, function_around, text_of, tree
from graphdoc.program.flows import Flow, flow_into
from graphdoc.program.owners import Owners
from graphdoc.program.spans import innermost_user

# The losses of torch.nn.functional whose second argument is what the first one is to become.
_WITH_TARGET = frozenset(
    {
        "kl_div",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "cross_entropy",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "nll_loss",
        "gaussian_nll_loss",
        "poisson_nll_loss",
        "soft_margin_loss",
        "multilabel_soft_margin_loss",
    }
)

Target = tuple[Frame, str]
Spot = tuple[str, int, int, int, int]
ByOwner = dict[int, dict[Spot, list[tuple[OlderEdge, Frame]]]]


@dataclass
class Coupling:
    """Where a loss takes in the output of a network that it is not for.

    ``late`` are such edges of the failing loss, ``early`` those of the one before, ``places`` the expressions that are
    to be constants, with what they are the targets of (empty where the two losses alone show it). ``own`` are the
    optimizers of the parameters that the failing loss reaches otherwise.
    """

    late: list[OlderEdge] = field(default_factory=list)
    early: list[OlderEdge] = field(default_factory=list)
    places: list[tuple[Frame, str]] = field(default_factory=list)
    own: set[int] = field(default_factory=set)


def one_way(evidence: Evidence, owners: Owners, failing: Event | None, freeing: Event | None) -> Coupling | None:
    """The coupling of two losses that is meant to go one way; None where nothing says so.

    Only where each loss has an optimizer of its own: what one takes in of the other belongs to an optimizer that holds
    nothing else this loss reaches. It has to be taken in as a target alone, or both losses have to do the same with
    roles exchanged, and more with what is their own.
    """
    if failing is None or freeing is None or {failing.kind, freeing.kind} != {"backward"}:
        return None
    dead = [c for c in evidence.older_edges if c.dead]
    late, own = _as_target(evidence.sources, evidence.nodes, owners, dead, set(evidence.fresh_reaches))
    early: list[tuple[OlderEdge, Target]] = []
    its: set[int] = set()
    if evidence.earlier_edges:  # the earlier loss still lives
        rest = set(freeing.reaches) - {n for c in evidence.earlier_edges for n in c.behind}
        early, its = _as_target(evidence.sources, evidence.nodes, owners, evidence.earlier_edges, rest)
    if not late and not early:
        return _exchanged(evidence.nodes, evidence.earlier_edges, owners, dead)
    if own & its:
        return None
    found = Coupling([c for c, _ in late], [c for c, _ in early], [p for _, p in (*late, *early)], own)
    found.own = own or owners.holding({n for c in dead if c not in found.late for n in c.behind})
    return found


def _as_target(
    sources: SourceTexts, nodes: list[Node], owners: Owners, carries: Iterable[OlderEdge], rest: set[str]
) -> tuple[list[tuple[OlderEdge, Target]], set[int]]:
    """The edges that are targets and lead to another optimizer than all others do; and the optimizers of the others.

    ``rest`` are the parameters that the loss reaches beside these edges.
    """
    targets: list[tuple[OlderEdge, Target]] = []
    others: set[str] = set(rest)
    for c in carries:
        found = _target_of(sources, nodes, c)
        if found is not None:
            targets.append((c, found))
        else:
            others |= set(c.behind)
    own = owners.holding(others)
    foreign = owners.holding({n for c, _ in targets for n in c.behind})
    if not targets or not own or not foreign or own & foreign:
        return [], own
    return targets, own


def is_aim(sources: SourceTexts, nodes: list[Node], carry: OlderEdge) -> bool:
    """Whether a loss takes a value in as its target."""
    return _target_of(sources, nodes, carry) is not None


def is_fitted(sources: SourceTexts, nodes: list[Node], carry: OlderEdge) -> bool:
    """Whether a loss takes a value in as what is to become its target."""
    found = _argument_of(sources, nodes, carry)
    return found is not None and not found[2]


def _target_of(sources: SourceTexts, nodes: list[Node], carry: OlderEdge) -> tuple[Frame, str] | None:
    """The expression given as the target of a loss through which the value is taken in, and the name of that loss."""
    found = _argument_of(sources, nodes, carry)
    return found[:2] if found is not None and found[2] else None


def _argument_of(sources: SourceTexts, nodes: list[Node], carry: OlderEdge) -> tuple[Frame, str, bool] | None:
    """The expression given to a loss through which the value is taken in, the name of that loss, and whether it is the
    target's.

    Looked for outwards from the operation that takes the value in, through assignments of each function.
    """
    node = node_with(nodes, carry.consumer)
    names = {h.path for h in carry.tensor.holders} | {h.base for h in carry.tensor.holders}
    for frame in reversed(node.stack if node is not None else []):
        root = tree(sources, frame.file) if frame.user else None
        if root is None:
            continue
        scope: ast.AST = function_around(root, frame.line) or root
        for call in _losses(sources, scope):
            target = argument(call, 1, "target")
            given = argument(call, 0, "input")
            if target is None or given is None:
                continue
            name = text_of(call.func)
            place, first = (frame_of(sources, frame.file, e, frame.function) for e in (target, given))
            if _inside(frame, place):
                return place, name, True
            if _same(frame, frame_of(sources, frame.file, call)):
                # The loss itself takes the value in: its name tells as which of the two.
                if text_of(target) in names - {text_of(given)}:
                    return place, name, True
                return (first, name, False) if text_of(given) in names - {text_of(target)} else None
            if _comes_from(sources, scope, target, frame):
                return None if _comes_from(sources, scope, given, frame) else (place, name, True)
            if _inside(frame, first) or _comes_from(sources, scope, given, frame):
                return first, name, False
    return None


def _losses(sources: SourceTexts, scope: ast.AST) -> list[ast.Call]:
    calls = [n for n in ast.walk(scope) if isinstance(n, ast.Call)]
    modules = _loss_modules(sources)
    return [c for c in calls if text_of(c.func).rsplit(".", 1)[-1] in _WITH_TARGET or text_of(c.func) in modules]


def _loss_modules(sources: SourceTexts) -> set[str]:
    """Names to which the program gives a loss of ``torch.nn``: ``self.distance = nn.KLDivLoss()``."""
    found: set[str] = set()
    for file in sources:
        for node in ast.walk(tree(sources, file) or ast.Module([], [])):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                name = text_of(node.value.func)
                if name.startswith(("nn.", "torch.nn.")) and name.endswith("Loss"):
                    found |= {text_of(t) for t in node.targets}
    return found


def _comes_from(sources: SourceTexts, scope: ast.AST, value: ast.expr, frame: Frame) -> bool:
    """Whether an expression is surely made, through assignments of its function, of what is computed at the frame."""
    return frame.column > 0 and flow_into(sources, scope, value, frame) is Flow.YES


def _inside(inner: Frame, outer: Frame) -> bool:
    if not inner.column or inner.file != outer.file:
        return False
    start = (outer.line, outer.column) <= (inner.line, inner.column)
    return start and (inner.end_line or inner.line, inner.end_column) <= (outer.end_line, outer.end_column)


def _same(one: Frame, other: Frame) -> bool:
    return _spot(one) == _spot(other)


def _spot(f: Frame) -> Spot:
    return (f.file, f.line, f.column, f.end_line or f.line, f.end_column)


def _exchanged(
    nodes: list[Node], earlier_edges: list[OlderEdge], owners: Owners, dead: list[OlderEdge]
) -> Coupling | None:
    """Both losses do the same with roles exchanged: what each does more of is done with its own network's output."""
    late, early = _by_owner(nodes, owners, dead), _by_owner(nodes, owners, earlier_edges)
    if late is None or early is None or len(late) != 2 or set(late) != set(early):
        return None
    one, other = late
    if set(late[one]) != set(early[other]) or set(late[other]) != set(early[one]) or set(late[one]) & set(late[other]):
        return None
    if len(late[one]) == len(late[other]):
        return None
    foreign, own = (one, other) if len(late[one]) < len(late[other]) else (other, one)
    return Coupling(
        [c for found in late[foreign].values() for c, _ in found],
        [c for found in early[own].values() for c, _ in found],
        [(frame, "") for found in late[foreign].values() for _, frame in found[:1]],
        {own},
    )


def _by_owner(nodes: list[Node], optimizers: Owners, carries: list[OlderEdge]) -> ByOwner | None:
    """Edges by the one optimizer to which they lead, and by place; None where one leads to none or to several."""
    found: ByOwner = {}
    for c in carries:
        node = node_with(nodes, c.consumer)
        frame = innermost_user(node.stack) if node is not None else None
        owners = optimizers.holding(c.behind)
        if frame is None or not frame.column or len(owners) != 1:
            return None
        found.setdefault(min(owners), {}).setdefault(_spot(frame), []).append((c, frame))
    return found
