"""Runs a program and what it is to be compared with, for the first steps alone, and tells where the two part."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from graphdoc.capture.trials.trace_end import ENOUGH
from graphdoc.documents import decode, read_source
from graphdoc.errors import UsageError
from graphdoc.evidence import Evidence, EvidenceError
from graphdoc.launch import Ended, Request
from graphdoc.launch.isolation import Forks, Stop, launch_apart
from graphdoc.launch.scratch import scratch
from graphdoc.messages.recognise import recognise_exception
from graphdoc.model import Span
from graphdoc.project import git_top
from graphdoc.story.wording import folded, listing
from graphdoc.verify.against import Calls, Compared, Part, Parting, Runs, calls_before, compare
from graphdoc.verify.traces import Trace, read_trace
from graphdoc.verify.trial import last_line, original_line


@dataclass(frozen=True)
class Against:
    """What a program is compared with. ``base`` and ``other`` are words of the two runs' modes; ``first`` and
    ``second`` say in a sentence which run is meant. ``texts`` are other sources for the second, by absolute path;
    ``arguments`` the words that follow the program's name in it."""

    name: str
    base: tuple[str, ...]
    other: tuple[str, ...]
    first: str
    second: str
    texts: dict[str, str] | None = None
    arguments: list[str] | None = None

    @property
    def whole(self) -> bool:
        """Whether the second run is given as one batch what the first has in parts."""
        return "data" in self.base

    @property
    def is_same(self) -> bool:
        """Whether it is the program itself."""
        return self.texts == {} and self.arguments is None


class NoStep(UsageError):
    """A run came to no step of an optimizer; ``refused`` is the autograd error that ended it, if one has."""

    def __init__(self, told: str, ended: Ended) -> None:
        super().__init__(f"nothing to compare: {told}, the program {_why(ended)}")
        name, _, message = last_line(ended.printed).partition(": ")
        match = recognise_exception(name, message) if ended.exit_status else None
        self.refused = (
            message.partition(". ")[0] if match is not None and match.kind == "error" and match.causes else ""
        )


PLAIN = ("uncompiled",)
"""Words of the mode of a run in which single operations are seen."""
PARTS = (*PLAIN, "data")
KINDS = {
    "eager": Against("eager", ("regions",), ("regions", *PLAIN), "compiled", "uncompiled"),
    "float64": Against("float64", PLAIN, (*PLAIN, "double", "cpu"), "in its own precision", "in float64"),
    "cpu": Against("cpu", PLAIN, (*PLAIN, "cpu"), "on its own device", "on the CPU"),
    "one-batch": Against("one-batch", PARTS, PARTS, "in parts", "in one batch"),
    "one-process": Against(
        "one-process", PARTS, (*PARTS, "alone"), "on its ranks", "in one process with the whole batch"
    ),
}


def against(name: str, cwd: Path) -> Against:
    """What ``--with`` names: one of ``KINDS``, else a revision of the git work tree that ``cwd`` lies in.

    Raises:
        UsageError: it is neither.
    """
    if name in KINDS:
        return KINDS[name]
    top = git_top(Path(os.path.realpath(cwd)))
    commit = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}") if top else None
    if top is None or commit is None:
        raise UsageError(f"--with {name} is none of {', '.join(KINDS)}, and no revision of a git work tree here")
    revision = commit.decode().strip()
    names = _git(top, "diff", "--no-ext-diff", "--no-renames", "--name-only", "-z", revision, "--", "*.py") or b""
    texts = {}
    for path in filter(None, names.decode("utf-8", "surrogateescape").split("\0")):
        data = _git(top, "cat-file", "blob", f"{revision}:{path}")
        if data is not None:
            texts[str(top / path)] = decode(data)
    return Against(name, PLAIN, PLAIN, "now", f"at {name}", texts)


def other_arguments(words: str) -> Against:
    """The program with other words after its name, split as a shell does.

    Raises:
        UsageError: a quotation mark is not closed.
    """
    try:
        arguments = shlex.split(words)
    except ValueError as e:
        raise UsageError(f"--with-args {words}: {e}") from e
    second = f"with `{words}`" if arguments else "without arguments"
    return Against(words, PLAIN, PLAIN, "as given", second, {}, arguments)


def _git(top: Path, *words: str) -> bytes | None:
    """What git prints; None where it fails. A stranger's repository is to start no program of its own."""
    done = subprocess.run(
        ["git", "-c", "core.fsmonitor=false", *words],
        cwd=top,
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout if done.returncode == 0 else None


def compared(request: Request, other: Against, steps: int, stop: Stop, asked: bool = False) -> Compared:
    """Run the program, what it is compared with, and where these differ at all, one of them with weights that are
    moved by rounding. ``request.timeout`` is for each.

    Raises:
        CannotIsolate, Interrupted: see ``graphdoc.launch.isolation``.
        UsageError: a run came to no step of an optimizer, or there is nothing to compare.
    """
    forks = Forks()
    try:
        with scratch() as folder:
            run = _Runner(request, steps, stop, asked, forks, folder)
            base = run.trace(other.first, other.base, {})
            if other.name == "cpu" and base.device == "cpu":
                raise UsageError("nothing to compare: the program's parameters are on the CPU as it is")
            if other.name == "eager" and not base.seen:
                raise UsageError("nothing to compare: the program compiles nothing in its first steps")
            words, repeated = _of_batches(base, other)
            try:
                second = run.trace(other.second, words, other.texts or {}, arguments=other.arguments)
            except NoStep as e:
                if other.name != "eager" or not e.refused:
                    raise
                return Compared(refused=e.refused)
            texts = other.texts or {}
            back = original_line(_texts_now(texts), texts, request.cwd or os.getcwd())
            other_data = other.arguments is not None or other.whole
            found = compare(Runs(base, second, second, second, back, other_data, other.whole, repeated))
            if found.widest:
                near = base if other.texts or other_data else second
                words = other.base if near is base else words
                moved = run.trace("with moved weights", words, {}, base.coarsest, audit=other_data)
                found = compare(Runs(base, second, near, moved, back, other_data, other.whole, repeated))
                found.seen = run.seen
            return found
    finally:
        forks.close()


def _of_batches(base: Trace, other: Against) -> tuple[tuple[str, ...], int]:
    """The words of the second run's mode, whose batches are as large as the parts of the first one together; and how
    often in a row it is given each: once for each part, so that the program counts on as it does.

    Raises:
        UsageError: these have no parts.
    """
    if not other.whole:
        return other.other, 1
    if other.name == "one-process":
        parts, repeated = 1 + len(base.others), 1
        if parts == 1:
            raise UsageError("nothing to compare: the program runs in one process as it is")
    else:
        calls = calls_before(base, base.steps[0])
        parts = repeated = len(calls)
        if parts < 2:
            raise UsageError("nothing to compare: the first step is given the gradient of one backward() call as it is")
        if len({c.place for c in calls}) > 1:
            raise UsageError("nothing to compare: backward() is called at several lines before the first step")
        if not base.batches:
            raise UsageError("one batch cannot be made of the parts, for no DataLoader makes these: --with-args can")
    sizes = "-".join(["batches", *(str(size * parts) for size in base.batches)])
    return (*other.other, sizes, *([f"repeat-{repeated}"] if repeated > 1 else [])), repeated


def mode_of(words: tuple[str, ...], steps: int, eps: float = 0.0, audit: bool = False) -> str:
    """The mode of one run: so many steps, with weights that are moved by ``eps`` of themselves if it is not zero."""
    audits = () if audit else ("no-audit",)
    return ":".join(["compare", *words, *audits, "nan-off", str(steps), *([f"{eps:.12f}"] if eps else [])])


@dataclass
class _Runner:
    request: Request
    steps: int
    stop: Stop
    asked: bool
    forks: Forks
    folder: Path
    seen: Evidence | None = None
    """What the audit has seen in the run that had one."""

    def trace(
        self,
        told: str,
        words: tuple[str, ...],
        texts: dict[str, str],
        eps: float = 0.0,
        arguments: list[str] | None = None,
        audit: bool = False,
    ) -> Trace:
        """The trace of one run, which begins alike each time."""
        out = self.folder / str(len(os.listdir(self.folder)))
        out.mkdir()
        name, *given = self.request.command
        command = [name, *(given if arguments is None else arguments)]
        mode = mode_of(words, self.steps, eps, audit)
        request = replace(self.request, command=command, mode=mode, patches=texts or None)
        ended = launch_apart(request, out, self.stop, enough=(out / ENOUGH).exists, asked=self.asked, forks=self.forks)
        for file in out.glob("evidence-*.json") if audit else ():
            with suppress(EvidenceError):
                evidence = Evidence.read(str(file))
                self.seen = evidence if evidence.signs and evidence.process.rank <= 0 else self.seen
        trace = read_trace(out)
        if trace is None or not trace.steps:
            raise NoStep(told, ended)
        return trace


def _why(ended: Ended) -> str:
    last = last_line(ended.printed)
    if ended.refused:
        return ended.refused
    if ended.timed_out:
        return f"makes no step of an optimizer within {ended.seconds:.0f} s"
    if ended.exit_status:
        return f"ends with exit status {ended.exit_status} before a step of an optimizer{f': {last}' if last else ''}"
    return "makes no step of an optimizer"


def _texts_now(texts: dict[str, str]) -> dict[str, str]:
    found = ((path, read_source(path)) for path in texts)
    return {path: decode(data) for path, data in found if data is not None}


# The result of a comparison in words, as a place in the source, and as JSON.


def sentences(found: Compared, other: Against) -> list[str]:
    """What was found; the first one says whether there is a difference."""
    first, second = other.first, other.second
    if found.refused:
        return [
            f"difference: {first}, the program makes steps; {second}, autograd refuses its gradients: {found.refused}",
            "`TORCH_COMPILE_DISABLE=1 graphdoc run` tells the cause of that error",
        ]
    told = []
    for lacking, having, parts in (
        (second, first, [p for p in found.parts if p.lost]),
        (first, second, [p for p in found.parts if p.gained]),
    ):
        if parts:
            told.append(f"{_names(parts)} {_verb(parts)} no gradient {lacking}, and {_verb(parts)} one {having}")
    rest = [p for p in found.parts if not p.lost and not p.gained]
    if rest:
        worst = max(rest, key=lambda p: p.apart)
        told.append(
            f"{_names(rest)} {_verb(rest)} other gradients {first} than {second}: {worst.apart:.2g} of their size "
            f"apart, where rounding explains {worst.explained:.1g}"
        )
        if found.factor:
            told[-1] += f"; each is {found.factor:.4g} times the other one, in the same direction"
    if told:
        told[0] = f"difference at step {found.step} of {found.optimizer}: {told[0]}"
    told += _reasons(found, first, second)
    if found.untold:
        told.append(f"{'the other gradients' if told else 'the gradients'} cannot be compared: {found.untold}")
        if other.whole:
            told.append("`--with-args ARGS` compares with a run that has other arguments of its own")
    if not told:
        steps = f"the first {found.steps} steps get" if found.steps > 1 else "the first step gets"
        how = f"up to rounding ({found.widest:.1g} apart)" if found.widest else "to the last bit"
        told.append(f"no difference: {first} and {second}, {steps} the same gradients {how}")
    if found.in_pieces:
        told.append(f"left out, for they have another shape in each run: {folded(found.in_pieces)}")
    return told


def _reasons(found: Compared, first: str, second: str) -> Iterator[str]:
    """What of parts and a whole may be the reason of a difference."""
    if len({calls.count for calls in found.calls}) > 1:
        yield "; ".join(map(_calls, found.calls, (first, second)))
    if found.unequal:
        sizes = listing([f"{size:g}" for size in found.unequal[:4]] + ["…"] * (len(found.unequal) > 4))
        yield f"each loss is the mean of its own part ({sizes} numbers): weigh each by its size"
    if found.undivided and found.parts:
        yield f"each of {found.undivided} losses counts whole: divide each by their number"
    if found.statistics is not None:
        _, line, *_ = found.statistics.place
        yield f"BatchNorm (line {line}) takes the mean of each call alone: other batches give other gradients"


def _calls(calls: Calls, run: str) -> str:
    """How many calls have given the gradients, and what their losses are together."""
    many = "s" if calls.count != 1 else ""
    where = f" (line {calls.place[1]})" if calls.place[1] else ""
    told = f"{run}: {calls.count} backward() call{many}{where} before that step"
    if calls.value is None:
        return told
    return f"{told}, losses of {calls.value:.4g} together" if many else f"{told}, loss of {calls.value:.4g}"


def _names(parts: list[Part]) -> str:
    return folded(p.name for p in parts)


def _verb(parts: list[Part]) -> str:
    return "have" if len(parts) > 1 else "has"


def place(parting: Parting) -> Span | None:
    """The user's expression where two runs part; None where none is known."""
    file, line, column, end_line, end_column = parting.seen.place
    if not file:
        return None
    seen, name = parting.seen, f"`{parting.seen.name}`"
    region = bool(seen.drawn)
    where = f"the compiled {name}: " if region else f"{parting.module}: " if parting.module else ""
    at = "" if region else f" at {name}"
    label = (
        where
        + {
            "out": f"the first result{'' if region else f', of {name},'} that rounding does not explain",
            "received": f"another gradient arrives here{at}",
            "given": f"an equal gradient arrives here{at}, and another one leaves",
            "within": "what arrives here and what comes out is equal, and the gradients of what it reads are not",
        }[parting.stage]
    )
    return Span("cause", file, line, column + 1, end_line, end_column + 1, label)


def as_json(found: Compared, other: Against, told: list[str]) -> dict[str, Any]:
    """The result for a machine, with the sentences that were told of it."""
    span = place(found.parting) if found.parting is not None else None
    return {
        "schema_version": 1,
        "compared_with": other.name,
        "difference": None if found.untold and not found.parts else found.differs,
        "sentences": told,
        "steps": found.steps,
        "widest": found.widest,
        "explained": found.explained,
        "optimizer": found.optimizer,
        "step": found.step,
        "factor": found.factor,
        "parameters": [asdict(part) for part in found.parts],
        "place": span.to_json() if span is not None else None,
    }
