"""The Evidence document itself: what it holds, how it is written and read, and looking things up in it."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import tempfile
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from graphdoc.evidence import lookup
from graphdoc.evidence.graph import Cut, Folded, Node, OlderEdge, Stale, Tensor
from graphdoc.evidence.run_records import AS_IF, Event, Optimizer, Package, Parameter, Process, Raised, Sign

MOST_ITEMS = 50_000
"""Of one list or object; the capture writes far fewer."""
MOST_TEXT = 4_000_000
"""Characters of one text; a source file of that length is not embedded either."""

Build = Callable[[Any], Any]


@dataclasses.dataclass
class Cuts:
    """How often something was longer than it is read; one for each document."""

    count: int = 0


_cuts = Cuts()


def build(kind: type, value: Any) -> tuple[Any, int]:
    """An object of the dataclass ``kind`` from parsed JSON, and how many lists, objects and texts of it were cut.

    Raises:
        TypeError: a value is of another type than the annotation says, or one without a default is missing.
    """
    _cuts.count = 0
    collecting = gc.isenabled()
    gc.disable()  # nothing here is garbage, and a search among a million new objects costs more than they did
    try:
        return _builder(kind)(value), _cuts.count
    finally:
        if collecting:
            gc.enable()


@cache
def _builder(hint: Any) -> Build:
    """The function that checks and converts a value for one annotation."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint)
    origin = typing.get_origin(hint)
    if origin is list:
        return _list(_builder(typing.get_args(hint)[0]))
    if origin is dict:
        return _dict(_builder(typing.get_args(hint)[1]))
    if origin is types.UnionType or origin is typing.Union:
        inner = _builder(next(a for a in typing.get_args(hint) if a is not type(None)))
        return lambda value: None if value is None else inner(value)
    if hint is Any:
        return lambda value: value
    return _plain(hint)


def _plain(hint: type) -> Build:
    def check(value: Any) -> Any:
        kind = type(value)
        if kind is hint:
            if hint is str and len(value) > MOST_TEXT:
                _cuts.count += 1
                return value[:MOST_TEXT]
            return value
        if hint is float and kind is int:
            return float(value)
        raise TypeError(f"expected {hint.__name__}, got {kind.__name__}")

    return check


def _list(inner: Build) -> Build:
    def check(value: Any) -> Any:
        if type(value) is not list:
            raise TypeError(f"expected a list, got {type(value).__name__}")
        if len(value) > MOST_ITEMS:
            _cuts.count += 1
            value = value[:MOST_ITEMS]
        return [inner(v) for v in value]

    return check


def _dict(inner: Build) -> Build:
    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise TypeError(f"expected an object, got {type(value).__name__}")
        if len(value) > MOST_ITEMS:
            _cuts.count += 1
            value = dict(list(value.items())[:MOST_ITEMS])
        return {k: inner(v) for k, v in value.items()}

    return check


def _dataclass(kind: Any) -> Build:
    hints = typing.get_type_hints(kind)
    known = {f.name: _builder(hints[f.name]) for f in dataclasses.fields(kind)}

    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise TypeError(f"expected an object for {kind.__name__}, got {type(value).__name__}")
        return kind(**{k: known[k](v) for k, v in value.items() if k in known})

    return check


# The Evidence document itself: what it holds, how it is written and read, and looking things up in it.

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
        return lookup.node_with(self.nodes, ident)

    def event(self, index: int) -> Event | None:
        """The journal entry with this index, or None (the journal is bounded)."""
        return lookup.event_with(self.events, index)

    def optimizer(self, ident: int) -> Optimizer | None:
        return lookup.optimizer_with(self.optimizers, ident)

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)

    def package(self, file: str) -> Package | None:
        """The installed package that a file of the frames belongs to, or None: the user's, Python's, PyTorch's."""
        return lookup.package_of(self.packages, file)

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
        version = data["version"]
        if version != EVIDENCE_VERSION:
            former = FORMER_NAMES.get(version) if isinstance(version, int) else None
            if former is None:
                raise EvidenceError(f"evidence version {version!r} is not one that this graphdoc reads ({_READ})")
            data = {former.get(name, name): value for name, value in data.items()} | {"version": EVIDENCE_VERSION}
        try:
            made, cuts = build(cls, data)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as e:
            raise EvidenceError(f"damaged evidence document: {e}") from e
        if cuts:
            made.degraded.append(f"the evidence is longer than any that graphdoc writes: {cuts} parts of it were cut")
        return typing.cast(Evidence, made)

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
