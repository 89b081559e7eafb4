"""Records of the graph: places, tensors and how they are reached, nodes, edges, writes, and where the graph ends."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Frame:
    """One call on a Python stack. Lines and columns from 1 (columns in characters), ``end_column`` exclusive.

    A column of 0 means that only the line is known (no position table, or a pasted traceback). ``user`` tells the
    user's own code from the standard library, site-packages and torch.
    """

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    function: str = ""
    user: bool = True

    @property
    def start(self) -> tuple[str, int, int]:
        """Where the place begins: file, line and column."""
        return self.file, self.line, self.column

    @property
    def extent(self) -> tuple[str, int, int, int, int]:
        """The whole place: file, line and column, and where it ends."""
        return self.file, self.line, self.column, self.end_line, self.end_column

    def in_function_of(self, other: Frame) -> bool:
        """Whether both places lie in one function, by its name."""
        return (self.file, self.function) == (other.file, other.function)

    def on_lines_of(self, other: Frame) -> bool:
        """Whether the place begins on a line of the other one."""
        return self.file == other.file and other.line <= self.line <= max(other.line, other.end_line)

    def lies_in(self, other: Frame) -> bool:
        """Whether the place lies in the other one; by its lines alone, where the columns of that are not known."""
        if self.file != other.file or other.column <= 0 or other.end_column <= 0:
            return self.on_lines_of(other)
        begins = (other.line, other.column) <= (self.line, self.column)
        return begins and (self.end_line or self.line, self.end_column) <= (other.end_line, other.end_column)


@dataclass
class Step:
    """One step of an access path.

    ``kind`` is name, attribute, field, key, index or cell; ``type`` the class found there. A field is an attribute that
    no statement can assign: of a named tuple or a frozen dataclass.
    """

    kind: str
    key: str
    type: str = ""


@dataclass
class Holder:
    """How the program can reach a tensor: ``path`` as Python (``self.memory['h'][0]``), and the same step by step.

    ``function`` and ``file`` say in which frame the first name lives ("<module>" for a global). ``exact`` is True when
    the very tensor is held there; False when what is held was made at the same place in a later iteration.

    ``base`` is the part of the path that a statement can assign (names and attributes only) and ``structure`` what
    stands there: "tensor", {"tuple": [...]}, {"list": ...}, {"dict": ...}, {"deque": ...}, with {"optional": ...} for
    elements some of which are None; None where it is none of these throughout. ``name`` is what a report calls it where
    the path leads through what a library keeps to itself (``Forecaster.hidden`` for
    ``trainer._loop._module.hidden``); empty for the path.
    """

    path: str
    function: str = "<module>"
    file: str = ""
    steps: list[Step] = field(default_factory=list)
    exact: bool = True
    base: str = ""
    structure: Any = None
    name: str = ""

    @property
    def told(self) -> str:
        """How a report calls it."""
        return self.name or self.path


@dataclass
class Tensor:
    """What is known of a tensor without its values. ``kind``: parameter, buffer, activation, leaf, input or unknown.

    ``owners`` are the ids of the optimizers that hold it; ``made`` is the stack of the operation that made it, where
    that is told.
    """

    kind: str = "unknown"
    name: str = ""
    shape: list[int] = field(default_factory=list)
    dtype: str = ""
    version: int = -1
    requires_grad: bool = False
    is_leaf: bool = False
    owners: list[int] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)
    made: list[Frame] = field(default_factory=list)


@dataclass
class Node:
    """A node of the autograd graph. ``state``: live, released or stale. ``stack``: where it was made, outermost first.

    ``sequence`` is PyTorch's own counter (-1 where it has none). ``epoch`` counts the backward calls before it was
    made, ``iteration`` the same for calls from the place of the failing backward.
    """

    id: int
    op: str
    sequence: int = -1
    stack: list[Frame] = field(default_factory=list)
    state: str = "live"
    epoch: int = -1
    iteration: int = -1
    shape: list[int] = field(default_factory=list)


@dataclass
class Write:
    """One in-place write. ``op`` is the operator (``add_``, ``copy_``), ``version`` the counter after it.

    ``count`` is how often it was made, ``moved`` how far each one moved the counter (an optimizer's step may write more
    than once); -1 where that is not known.
    """

    op: str
    stack: list[Frame] = field(default_factory=list)
    version: int = -1
    count: int = 1
    moved: int = 1
    event: int = -1
    grad_mode: bool = True
    certain: bool = True


@dataclass
class Stale:
    """A saved tensor whose version moved: which node saved it, as what, and who wrote it.

    ``behind`` are the parameters that the node leads to, the stale one included. ``given_out`` are the further ones
    behind what each call of the program's gave out in which the node was made: the innermost call first, without those
    of the calls inside it; shorter than the node's stack where it was not known.
    """

    node: int
    attribute: str
    tensor: Tensor
    expected: int
    current: int
    output: bool = False
    producer: int = -1
    writes: list[Write] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    given_out: list[list[str]] = field(default_factory=list)


@dataclass
class OlderEdge:
    """An edge from a fresh node to one that an earlier backward already used.

    Where the earlier call started from another output of the failing call's own root, ``consumer`` is that root, which
    is used as well.

    ``consumer`` uses ``tensor``, the output of ``producer``; ``outputs`` are the numbers of those that it uses, of a
    node that has several (none: not known). ``behind`` are the parameters reachable through it,
    ``freed_by`` the index of the event that released what lies behind (-1: unknown). ``dead`` tells whether anything
    behind it is released or stale. ``recurrent``: a newer output of the same expression depends on it; ``remade``: the
    failing graph holds a newer output of the same expression; ``renewed``: nobody holds ``tensor`` any more, and under
    its names lies an output of that expression which is newer than the earlier call, in the failing graph or not.
    ``apart``: one of the two was made in a thread that the
    program has started, the call runs in none, and each thread counts its nodes by itself, so which came first is not
    known (aten/src/ATen/SequenceNumber.cpp). ``term``: the loss is a sum, and one of its terms reaches
    parameters through such edges alone: with constants in their place that term adds nothing to any gradient.
    ``factor``: all that this loss makes of it is a factor, by which it multiplies what leads to other parameters:
    ``alone`` to these, or ``beside`` to some of those behind it; empty where it makes anything else of it.
    ``compared``: all that this loss does with it is to set it against what it computes anew from the same parameters,
    as a ``ratio`` (of probabilities) or a ``distance``, or from a ``part`` of them; ``aside`` where that is of other
    parameters alone, ``weighed`` where it multiplies that with it; empty where it does anything else.
    """

    consumer: int
    producer: int
    tensor: Tensor
    behind: list[str] = field(default_factory=list)
    freed_by: int = -1
    dead: bool = True
    recurrent: bool = False
    remade: bool = False
    apart: bool = False
    renewed: bool = False
    term: bool = False
    factor: str = ""
    compared: str = ""
    outputs: list[int] = field(default_factory=list)

    @property
    def is_compared(self) -> bool:
        """Whether it is set against what the loss computes anew from the same parameters."""
        return self.compared in ("ratio", "distance", "part")


PART_FRAMES = 4
"""Frames that are kept of a part's stack; one that is shorter is whole."""
PART_NAMES = 40
"""Parameters that a part names; one that names as many may have more."""


@dataclass
class Part:
    """The nodes of the failing graph that one expression made, reached in one way, or the parameters of one module.

    ``stack`` holds the innermost of the user's frames, outermost first; ``ops`` counts the nodes by name. ``released``
    and ``stale`` say how many of the nodes were, ``older`` that they were made before the latest backward call.
    ``first`` and ``last`` are the iterations (as ``Node.iteration``; -1 where unknown) of the lowest and highest node.
    ``lines`` are the first and the last line of one that stands for a whole function; empty for the others.
    ``parameters`` are names, at most ``PART_NAMES``; such a part has no stack, and ``owners`` are its optimizers.
    """

    stack: list[Frame] = field(default_factory=list)
    ops: dict[str, int] = field(default_factory=dict)
    nodes: int = 0
    released: int = 0
    stale: int = 0
    older: bool = False
    lines: list[int] = field(default_factory=list)
    first: int = -1
    last: int = -1
    parameters: list[str] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)


@dataclass
class Folded:
    """The whole failing graph, folded by source line. ``edges`` are [from part, to part, how many], as backward goes.

    ``homes`` tells the part of each of ``Evidence.nodes``, by id (-1: none). ``root`` is the part where backward began.
    """

    parts: list[Part] = field(default_factory=list)
    edges: list[list[int]] = field(default_factory=list)
    homes: list[int] = field(default_factory=list)
    root: int = -1

    def home(self, node: int) -> int:
        """The part that a node lies in; -1 where it lies in none."""
        return self.homes[node] if 0 <= node < len(self.homes) else -1

    def below(self, parts: Collection[int]) -> set[int]:
        """The other parts that these take values of."""
        return {lower for upper, lower, _ in self.edges if upper in parts}.difference(parts)

    def taking(self, parts: Collection[int]) -> set[int]:
        """The other parts that take values of these."""
        return {upper for upper, lower, _ in self.edges if lower in parts}.difference(parts)


@dataclass
class Cut:
    """Where a chain of gradients ends: ``op`` took something with a graph and gave something without.

    ``reason``: conversion, detach, no-grad, nondifferentiable, frozen, constant, input or unknown. ``before`` is the
    place of the last operation that had a graph; ``switch`` where grad mode was switched off (its innermost frame is
    a library's where that did it). ``grad_mode``: grad mode was on, and inference mode kept it from being recorded.
    ``listed``: ``op`` was given a list, of tensors of at most ``element_dims`` dimensions, ``nested`` one of lists,
    ``mixed`` one of tensors and numbers.
    """

    reason: str
    op: str
    stack: list[Frame] = field(default_factory=list)
    before: list[Frame] = field(default_factory=list)
    before_op: str = ""
    switch: list[Frame] = field(default_factory=list)
    switch_kind: str = ""
    certain: bool = True
    behind: list[str] = field(default_factory=list)
    grad_mode: bool = False
    listed: bool = False
    nested: bool = False
    mixed: bool = False
    element_dims: int = 0
