"""What crosses from the user's process: one document of plain typed data, with a version.

Standard library only: the capture imports it inside the user's process, everything to the right of it (causes, fixes,
renderers) reads it later, on any machine, without torch. It holds shapes, dtypes, names, places, versions and source
text, never tensor values (but see ``graphdoc.capture.tensors.number_facts``) and never environment variables.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# Records of the graph: places, tensors and how they are reached, nodes, edges, writes, and where the graph ends.


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

    ``sequence`` is PyTorch's own counter (-1 where it has none). ``iteration`` counts the calls from the place of the
    failing backward before it was made.
    """

    id: int
    op: str
    sequence: int = -1
    stack: list[Frame] = field(default_factory=list)
    state: str = "live"
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
    ``parameters`` are names, at most ``PART_NAMES``; such a part has no stack, and ``owners`` are its optimizers.
    """

    stack: list[Frame] = field(default_factory=list)
    ops: dict[str, int] = field(default_factory=dict)
    nodes: int = 0
    released: int = 0
    stale: int = 0
    older: bool = False
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
    ``mixed`` one of tensors and numbers. ``choices``: how many an ``argmax`` had along its axis, where it had one.
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
    choices: int = 0


# Records of the run: its calls, optimizers and parameters, what was seen in it, whose code ran, how it ended.

NO_GRAPH = "element 0 of tensors does not require grad and does not have a grad_fn"
"""What PyTorch says of a loss without graph; also of one that hides it, in whose evidence we say so ourselves."""
STALE_UNSEEN = "one of the variables needed for gradient computation has been modified by an inplace operation"
"""The same of a tensor that was written where no version counter tells."""
USED_AGAIN = "Trying to backward through the graph a second time"
"""The same of a part of the graph that an earlier call has gone through, and that has nothing to free."""
ALL_ZEROS = "all-zeros"
"""Weak: all gradients that an optimizer has been given, from the first step on, were zero."""
BESIDE = "beside-the-loss"
"""Of a sum (``stack``) that holds a loss and is never differentiated: ``other`` differentiates the loss, ``parameters``
are those that the other terms would train, ``facts["weighed"]`` tells whether one of these has a factor."""
BYPASSED = "bypassed"
ITSELF = "compared-with-itself"
GRADIENTS = "gradients"
"""What was measured of the gradients of one optimizer (``graphdoc.capture.whatif``)."""
GRADIENTS_ASKED = "gradients-asked"
"""The user has asked for these."""
LEFT_OUT = "left-out"
"""Of parameters that no loss depends on: ``stack`` is where the last result was made of them, ``other`` a backward
call, ``facts["positions"]`` where they stand among those of their optimizer, ``facts["apart"]`` whether in a group of
their own, ``facts["number"]`` whether that is a single number, and ``facts["alone"]`` of data and of them alone."""
LEARNED = "learned"
"""In the mode of a run: steps like the last ones are not recorded."""
ASSIGNED = "data ="
"""``p.data = x`` among the operations that write."""
AT_END = "at the end"
"""In the facts of a sign: it was seen a few times only, and nothing else until the run had ended."""
SO_FAR = "so far"
"""In the facts of a sign of a second run: the first run, which was not ended early, has looked for the same."""
THINNED = "thinned"
"""In the extras of a run in which steps were not recorded: ``since`` is the last step before the first of these."""
UNDONE = "undone"
"""Of parameters that have their old numbers again before the next step: ``stack`` is the write, ``other`` the step."""
UNREAD = "unread-function"
"""Of a Function with a backward of the user's own, which is given what has a graph and is in that of no loss: ``stack``
is where it was applied, ``other`` a backward call."""
OTHER_DERIVATIVE = "other-derivative"
"""Of parameters whose gradient is not that of the loss: the backward of a Function, applied at ``stack``, gives another
derivative than its forward has, or (``twice`` in ``facts["functions"]``) its gradient than that has."""
RECOMPUTED = "recomputed"
"""Of parameters that get another gradient, or none, as a checkpoint runs again what ``stack`` has run; ``other`` is a
backward call, ``facts["none"]`` tells that they get none."""
WRITTEN_OVER = "written-over"
"""Of parameters that get another gradient because a Function writes, at ``stack``, to what it is given: ``facts`` has
the Function, its ``side`` being the method; ``other`` is a backward call."""
LAST_ALONE = "last-alone"
"""A step uses the gradients of the last of ``facts["calls"]`` backward calls at ``other`` alone; ``stack`` takes those
of each away."""
READ_PAST = "read-past"
"""As ``LEFT_OUT``, of parameters inside of a module none of whose forwards runs: ``stack`` is where another parameter
of that module is read instead."""
SAVED_OVER = "saved-over"
"""With the values that the forward has saved these parameters have another gradient: ``stack`` is where that memory is
written, ``other`` a backward call, ``facts["made"]`` the operation that has saved it."""
SECOND_LOOK = frozenset(
    (BESIDE, BYPASSED, GRADIENTS, LAST_ALONE, LEFT_OUT, READ_PAST, RECOMPUTED, SAVED_OVER, UNDONE, UNREAD, WRITTEN_OVER)
)
"""Kinds of signs that only a second run gives."""
AS_IF = frozenset({"covered-loss", "constant-term", "cut-off", "cut-term", "stale-parameter", "computed-once"})
"""Kinds of signs whose evidence is that of the failure which it would be if PyTorch raised an error for them."""
SourceTexts = Mapping[str, str]
"""The text of each file of the run, by its name in the frames."""
LAST_LINE = 200_000
"""Lines of a package's file that can be shown lie above this one."""


@dataclass
class Event:
    """One entry of the journal: a backward, grad, step, zero_grad, load_state_dict or grad-mode switch, in order.

    ``root`` is the sequence number of the (first) root's node, ``root_output`` which of its outputs the root is (-1:
    not known), ``other_roots`` the same two numbers of each further one; ``sequence`` the counter's value when it
    happened, ``reaches`` the parameters behind the roots where that was measured. ``optimizer`` is an id in
    ``Evidence.optimizers``. ``number`` counts the calls of its kind in the run, from 1; 0 where that is not known.
    """

    index: int
    kind: str
    sequence: int = -1
    stack: list[Frame] = field(default_factory=list)
    root: int = -1
    root_op: str = ""
    retain_graph: bool = False
    create_graph: bool = False
    optimizer: int = -1
    occurrence: int = 0
    reaches: list[str] = field(default_factory=list)
    failed: bool = False
    root_output: int = -1
    other_roots: list[int] = field(default_factory=list)
    number: int = 0

    @property
    def roots(self) -> set[tuple[int, int]]:
        """The sequence number of each root's node, and which of its outputs it is (-1: not known)."""
        return {(self.root, self.root_output), *zip(self.other_roots[::2], self.other_roots[1::2], strict=False)}

    def starts_with(self, other: Event) -> bool:
        """Whether both calls start from the same tensor, or from the same ones, as far as that is known."""
        mine, others = (self.root, self.root_op, self.root_output), (other.root, other.root_op, other.root_output)
        return self.root >= 0 and mine == others and self.other_roots == other.other_roots


@dataclass
class Optimizer:
    """An optimizer: its class, how the program calls it, its parameters by name, and how often it has stepped.

    ``stack``: the user's frames that made it, outermost first; empty where that was not seen.
    """

    id: int
    type: str
    name: str = ""
    parameters: list[str] = field(default_factory=list)
    steps: int = 0
    stack: list[Frame] = field(default_factory=list)


@dataclass
class Parameter:
    """A parameter or buffer by name, with the optimizers that hold it. ``grad``: none, zero or present.

    ``several_names``: the module that holds it, or one around that, stands in the module tree under more than one.
    """

    name: str
    shape: list[int] = field(default_factory=list)
    dtype: str = ""
    requires_grad: bool = True
    buffer: bool = False
    is_leaf: bool = True
    version: int = -1
    owners: list[int] = field(default_factory=list)
    grad: str = ""
    steps_with_grad: int = 0
    several_names: bool = False


@dataclass
class Sign:
    """What was seen in a run that went on: no error, and yet something that a cause may explain.

    ``kind`` names the question (each audit says what its kinds mean). ``stack`` is the place that it is about,
    ``other`` a second one, ``cut`` where a chain of gradients ends; ``parameters`` and ``optimizer`` say whose it is;
    ``event`` is the journal index at which it was certain, ``count`` how often it was seen until then. ``weak``: it may
    well be meant, and is told only to those who ask for everything.
    """

    kind: str
    stack: list[Frame] = field(default_factory=list)
    other: list[Frame] = field(default_factory=list)
    cut: Cut | None = None
    parameters: list[str] = field(default_factory=list)
    optimizer: int = -1
    event: int = -1
    count: int = 0
    weak: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Package:
    """An installed package whose code stood on a stack: its name and version as its installer recorded them.

    ``files`` are its files as named in the frames; ``sources`` the functions of each that were running there, as text
    by line number (a decimal string, from 1). ``folder`` is what it was installed into, named as they are.
    """

    name: str
    version: str = ""
    files: list[str] = field(default_factory=list)
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    folder: str = ""

    @property
    def told(self) -> str:
        """``unet 0.7.7``."""
        return f"{self.name} {self.version}".strip()

    def path_of(self, file: str) -> str:
        """One of its files as the package has it: ``unet/encoding.py``."""
        path, folder = (name.replace("\\", "/") for name in (file, self.folder))
        return re.sub(r".*-packages/", "", path.removeprefix(f"{folder}/"))

    def text(self, file: str) -> str:
        """What is kept of a file, each line at its own number; the others are empty."""
        told = self.sources.get(file, {}).items()
        kept = {int(n): line for n, line in told if n.isascii() and n.isdigit() and len(n) < 8}
        kept = {n: line for n, line in kept.items() if n <= LAST_LINE}
        return "\n".join(kept.get(n, "") for n in range(1, max(kept, default=0) + 1))


@dataclass
class Raised:
    """The exception as it was raised. ``stack`` is its traceback, outermost first; ``causes`` the chain behind it;
    ``in_a_row`` how many backward calls of one place have failed at the end of the run, where the program caught it."""

    type: str
    message: str
    stack: list[Frame] = field(default_factory=list)
    uncaught: bool = True
    in_a_row: int = 0
    causes: list[str] = field(default_factory=list)


@dataclass
class Process:
    """The process that wrote this file."""

    pid: int = 0
    rank: int = -1
    world_size: int = 1
    argv: list[str] = field(default_factory=list)
    cwd: str = ""
    python: str = ""
    torch: str = ""
    written: float = 0.0


# The document itself: how it is written and read, and looking things up in it.


def node_with(nodes: Iterable[Node], ident: int) -> Node | None:
    """The node with this id, or None."""
    return next((n for n in nodes if n.id == ident), None)


def event_with(events: Iterable[Event], index: int) -> Event | None:
    """The journal entry with this index, or None (the journal is bounded)."""
    return next((e for e in events if e.index == index), None)


def optimizer_with(optimizers: Iterable[Optimizer], ident: int) -> Optimizer | None:
    """The optimizer with this id, or None."""
    return next((o for o in optimizers if o.id == ident), None)


def package_of(packages: Iterable[Package], file: str) -> Package | None:
    """The installed package that a file of the frames belongs to, or None: the user's, Python's, PyTorch's."""
    return next((p for p in packages if file in p.files), None)


EVIDENCE_VERSION = 2
FORMER_NAMES = {1: {"carries": "older_edges", "siblings": "earlier_edges", "lingering": "held_tensors"}}
"""The fields that had another name in an older version that is still read."""
_READ = ", ".join(str(n) for n in (*FORMER_NAMES, EVIDENCE_VERSION))
MOST_BYTES = 100_000_000
"""Of a file that is read as evidence; the capture's own bounds keep it at a few."""


class EvidenceError(ValueError):
    """An evidence file that cannot be read: truncated, not JSON, or of a version that this graphdoc does not know."""


@dataclass
class Evidence:
    """One process's account of one run. See the classes above for each part.

    ``capture`` names how stacks were recorded (cheap-stacks, node-hook, anomaly, none). ``sources`` maps a file, as
    named in the frames, to its text during the run; ``hashes`` to its sha256. ``degraded`` says in plain sentences
    what could not be observed, ``warnings`` which of PyTorch's own were shown, and for which line of the user's.
    ``older_edges`` lead into what an earlier backward call has used; ``earlier_edges`` are those by which an earlier
    call of the same forward pass enters the part that it shares with the failing one; ``held_tensors`` are those that
    the program still holds with a graph made before an earlier backward call.
    ``signs`` is what the audits saw in a run that went on.
    ``folded`` is all of the failing graph, for drawing; ``nodes`` are the few of it that matter.
    ``probe`` is the kind of the second run that added to this, if one did. ``packages`` are the installed packages
    whose code stood on the stacks, PyTorch itself left out.
    """

    version: int = EVIDENCE_VERSION
    process: Process = field(default_factory=Process)
    command: list[str] = field(default_factory=list)
    capture: str = "cheap-stacks"
    exit_status: int | None = None
    seconds: float = 0.0
    raised: Raised | None = None
    warnings: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    optimizers: list[Optimizer] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    stale: list[Stale] = field(default_factory=list)
    older_edges: list[OlderEdge] = field(default_factory=list)
    earlier_edges: list[OlderEdge] = field(default_factory=list)
    held_tensors: list[Tensor] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    signs: list[Sign] = field(default_factory=list)
    root: int = -1
    failing: int = -1
    failing_event: int = -1
    fresh_reaches: list[str] = field(default_factory=list)
    reaches: list[str] = field(default_factory=list)
    graph_size: int = 0
    folded: Folded | None = None
    extras: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    degraded: list[str] = field(default_factory=list)
    packages: list[Package] = field(default_factory=list)
    probe: str = ""
    from_text: bool = False

    # -- looking things up ---------------------------------------------------------------------------------------

    def node(self, ident: int) -> Node | None:
        """The node with this id, or None."""
        return node_with(self.nodes, ident)

    def event(self, index: int) -> Event | None:
        """The journal entry with this index, or None (the journal is bounded)."""
        return event_with(self.events, index)

    def optimizer(self, ident: int) -> Optimizer | None:
        return optimizer_with(self.optimizers, ident)

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)

    def package(self, file: str) -> Package | None:
        """The installed package that a file of the frames belongs to, or None: the user's, Python's, PyTorch's."""
        return package_of(self.packages, file)

    @property
    def failing_call(self) -> Event | None:
        """The journal's entry of the backward or grad call that failed, or None where none is known."""
        known = self.event(self.failing_event) if self.failing_event >= 0 else None
        return known or next((e for e in reversed(self.events) if e.failed), None)

    @property
    def failing_node(self) -> Node | None:
        """The node at which it failed, or None where none is known."""
        return self.node(self.failing)

    @property
    def as_if(self) -> Sign | None:
        """The sign for which this evidence tells of an exception that was not raised, or None."""
        return next((s for s in self.signs if s.kind in AS_IF), None)

    @property
    def went_on(self) -> bool:
        """Whether something was seen in a run that autograd has not ended."""
        return bool(self.signs) and (self.raised is None or self.as_if is not None)

    @property
    def message(self) -> str:
        """The text of the exception, or an empty string."""
        return self.raised.message if self.raised else ""

    # -- writing and reading -------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def write(self, path: str, data: dict[str, Any] | None = None) -> None:
        """Write atomically, for this user alone (mode 0600): a reader sees the whole document or none.

        ``data`` is written in the place of ``to_json()``.

        Raises:
            OSError: the folder cannot be written or the disk is full; nothing is left behind.
        """
        folder = os.path.dirname(path) or "."
        handle, temporary = tempfile.mkstemp(prefix=".evidence-", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as f:
                f.write(json.dumps(self.to_json() if data is None else data, separators=(",", ":")))
            os.replace(temporary, path)
        except BaseException:
            try:
                os.unlink(temporary)
            except OSError:
                pass
            raise

    @classmethod
    def from_json(cls, data: Any) -> Evidence:
        """Build from parsed JSON; unknown fields are ignored, and an older version is read by its own names.

        Raises:
            EvidenceError: the document is not an evidence document or has another version.
        """
        if not isinstance(data, dict) or "version" not in data or "process" not in data:
            raise EvidenceError("not a graphdoc evidence document")
        from graphdoc.documents import build

        version = data["version"]
        if version != EVIDENCE_VERSION:
            former = FORMER_NAMES.get(version) if isinstance(version, int) else None
            if former is None:
                raise EvidenceError(f"evidence version {version!r} is not one that this graphdoc reads ({_READ})")
            data = {former.get(name, name): value for name, value in data.items()} | {"version": EVIDENCE_VERSION}
        try:
            made: Evidence
            made, cuts = build(cls, data)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as e:
            raise EvidenceError(f"damaged evidence document: {e}") from e
        if cuts:
            made.degraded.append(f"the evidence is longer than any that graphdoc writes: {cuts} parts of it were cut")
        return made

    @classmethod
    def read(cls, path: str) -> Evidence:
        """Read a file.

        Raises:
            EvidenceError: missing, truncated, not JSON, or of an unknown version.
        """
        data = load(path)
        try:
            return cls.from_json(data)
        except EvidenceError as e:
            raise EvidenceError(f"{path}: {e}") from e


def load(path: str) -> dict[str, Any]:
    """The object in an evidence file, as parsed JSON that nobody has checked yet.

    Raises:
        EvidenceError: missing, truncated, longer than any that graphdoc writes, or not a JSON object.
    """
    from graphdoc.documents import Unreadable, read_object

    try:
        return read_object(path, MOST_BYTES)
    except Unreadable as e:
        raise EvidenceError(str(e)) from e
