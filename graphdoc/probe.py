"""The second run: when the first one leaves a question that a slower look answers, run the program again and look."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphdoc.evidence import (
    GRADIENTS,
    GRADIENTS_ASKED,
    LEFT_OUT,
    READ_PAST,
    SECOND_LOOK,
    Evidence,
    EvidenceError,
    Process,
    Sign,
)
from graphdoc.launch import Ended
from graphdoc.launch.isolation import CannotIsolate, Stop, check_ways, launch_apart, patience, stoppable
from graphdoc.launch.keep import Kept
from graphdoc.launch.scratch import scratch
from graphdoc.processes import (
    DEEPENED,
    Arriving,
    are_complete,
    changed_sources,
    read_evidence,
    read_processes,
    same_failure,
)
from graphdoc.program import suspicions
from graphdoc.program.custom_functions import read_besides
from graphdoc.program.exception import INFERENCE, NO_GRAPH, SECOND_TIME, VERSION, message_of
from graphdoc.program.proof import first_sign
from graphdoc.program.spans import is_compiled
from graphdoc.program.writers import plausible
from graphdoc.second_run import SEEN_AGAIN, add_later, full_mode, look_of, needs_record, nonfinite, take_look, take_over
from graphdoc.source.paths import only
from graphdoc.standing import Announce, Standing
from graphdoc.story.first_bad_value import NONE_MET

SHORTEST_LIMIT = 30.0
"""Seconds that a second run has at least."""
TIMES_SLOWER = 6.0
"""How many times the first run's seconds it may take."""
LONGEST_LIMIT = 120.0
"""Seconds that nobody is made to wait beyond, however long the first run took."""
LEAVING = 1.0
"""Seconds that the program has to end by itself once it has failed again."""

WHOLE, BEFORE = 15.0, 40
"""A run of fewer seconds is looked at closely from its first operation; a longer one so many events of the journal
before its first value that was not finite."""

_MISSING_GRAPH = (*NO_GRAPH, "grad-input-no-requires-grad", "grad-input-unused", *INFERENCE)
"""Messages (ids) of a graph that ends where it should not."""
_MEASURED = (
    *("suspect-unreached", "suspect-zero", "suspect-function", "suspect-undone", "suspect-beside"),
    *("suspect-shared", "suspect-taken"),
)
"""Kinds of signs that nothing but a measure tells from what is meant."""
TOO_LONG = "longer than a second run may take"
UNCOMPILED = ":uncompiled"
"""Of a mode: `torch.compile` compiles nothing, so that each operation is seen."""
RECORD = "probe:record"
"""The mode in which each step is recorded, where the first run left steps out; more is asked of what that tells."""
_LOOKED_FOR = {
    "record": "the step that was not recorded",
    "writes": "what changed the tensor",
    "compiled": "each operation, without torch.compile",
    "hidden": "what changed parameters between a forward and its backward",
    "cuts": "where the graph was cut",
    "suspicion": "whether a graph is cut somewhere",
    "whatif": "whether the gradients are those of the loss",
    "nonfinite": "where the first nan or inf came from",
}


def question(evidence: Evidence) -> str:
    """The mode of a second run that would tell more: ``probe:record``, ``probe:writes[:uncompiled]``,
    ``probe:compiled:uncompiled``, ``probe:hidden``, ``probe:cuts``, ``probe:whatif[:all][:OPTIMIZER...]`` (which looks
    for cuts as well), ``probe:nonfinite:START[:only|:all]``, or empty for none.
    """
    if needs_record(evidence):
        return RECORD
    if evidence.from_text or evidence.probe:
        return ""
    sign = nonfinite(evidence.signs)
    if sign is not None:
        return _of_bad_value(sign, evidence.seconds)
    if evidence.raised is None:
        return _of_one_that_went_on(evidence)
    if evidence.as_if is not None:
        return "probe:cuts" if evidence.as_if.kind == "covered-loss" else ""
    compiled = bool(evidence.extras.get("compiled"))
    if message_of(evidence.raised, *SECOND_TIME):
        inside = compiled and any(is_compiled(n) and n.state == "released" for n in evidence.nodes)
        return f"probe:compiled{UNCOMPILED}" if inside else ""
    if message_of(evidence.raised, *VERSION):
        only = compiled and any(is_compiled(evidence.node(s.node)) for s in evidence.stale)  # saved in there alone?
        asks = only or any(not plausible(s) for s in evidence.stale)
        return f"probe:writes{UNCOMPILED if compiled else ''}" if asks else ""
    # The graph has shown how the input came about; where the program reads it besides, a cut may be the reason still.
    beside = evidence.extras.get("unreached", {}).get("shares") and not read_besides(evidence)
    return "probe:cuts" if message_of(evidence.raised, *_MISSING_GRAPH) and not beside else ""


def _of_bad_value(sign: Sign, seconds: float) -> str:
    """The mode for a run that has met a value that is not finite."""
    scaler, settled = sign.facts.get("scaler"), sign.facts.get("settled")
    if scaler:
        return f"probe:nonfinite:{scaler['from']}:only"  # before that, infinities are a scaler's way
    if sign.facts.get("all"):
        return "probe:nonfinite:0:all"
    start = 0 if seconds < WHOLE else max(sign.facts.get("good", 0) - BEFORE, 0)
    return f"probe:nonfinite:{start}" if settled is None else f"probe:nonfinite:{settled}:only"


def _of_one_that_went_on(evidence: Evidence) -> str:
    """The mode for a run without an exception."""
    sources, signs = evidence.sources, evidence.signs
    alone = evidence.process.world_size <= 1  # other ranks would wait for a fork of one: it is not measured there
    measurable = alone and first_sign(signs, *_MEASURED) is not None
    asked = first_sign(signs, GRADIENTS_ASKED) is not None
    hidden = suspicions.writes_through_data(sources, signs)
    if hidden and not asked and not (measurable and first_sign(signs, "suspect-unreached")):
        return "probe:hidden"
    if not (asked or measurable or first_sign(signs, "suspect-residual") or suspicions.may_be_cut(sources, signs)):
        return ""
    return _measuring(asked, signs) if alone else "probe:cuts"


def _measuring(asked: bool, signs: list[Sign]) -> str:
    """The mode in which gradients are measured, of the optimizers too that signs speak of, whenever they step."""
    measured = [s for s in signs if s.kind in (*_MEASURED, GRADIENTS_ASKED, "suspect-term")]
    numbers = sorted({n for s in measured for n in s.facts.get("optimizers", [s.optimizer]) if n >= 0})
    return f"probe:whatif{':all' if asked else ''}{''.join(f':{n}' for n in numbers)}"


def deepen(kept: Kept, evidence: Evidence, announce: Announce | None = None) -> Evidence | None:
    """The evidence with what a second run has added, or None where none is needed.

    It runs once for a kept run: its outcome is kept beside ``evidence`` and read from there afterwards. If the second
    run does not fail in the same way, what is returned is the first evidence with a sentence about that in
    ``extras["second_run"]``.

    Raises:
        Interrupted: by a signal; what the run has left is lost.
    """
    known = deepened(kept, evidence.process)
    if known is not None:
        return known
    companion = _companion(kept, evidence.process)
    result = _look(kept, evidence, companion, announce)
    if result is None or not needs_record(evidence) or needs_record(result):
        return result
    result = _look(kept, result, companion, announce) or result
    result.extras.setdefault("second_run", SEEN_AGAIN)
    return _written(result, companion)


def _written(result: Evidence, companion: Path) -> Evidence:
    try:
        result.write(str(companion))
    except OSError:
        pass  # a full disk: the next command runs the program again, no worse
    return result


def _look(kept: Kept, evidence: Evidence, companion: Path, announce: Announce | None) -> Evidence | None:
    """What one more run tells, kept as ``companion``; the evidence with a sentence where that run cannot be made, None
    where none is needed."""
    mode = question(evidence)
    if not mode or not kept.folder.is_dir() or not kept.cwd.is_dir() or changed_sources(evidence):
        return None
    if mode == _measuring(False, evidence.signs) and _agreed_before(kept, evidence):
        return None
    if not kept.may_run:
        _tell_why(evidence.extras, "the first was not run here")
        return evidence
    limit = min(max(SHORTEST_LIMIT, TIMES_SLOWER * kept.seconds), LONGEST_LIMIT)
    if kept.seconds >= limit:
        _tell_why(evidence.extras, f"the first took {kept.seconds:.0f} s, {TOO_LONG}")
        return evidence
    try:
        with stoppable() as stop:
            check_ways(kept.request)
            result = _again(kept, evidence, mode, limit, stop, announce)
    except CannotIsolate as e:
        _tell_why(evidence.extras, str(e))
        return evidence
    stop.check()
    return _written(result, companion)


def deepened(kept: Kept, process: Process) -> Evidence | None:
    """What an earlier second run of this kept run has left, or None. Nothing is run."""
    companion = _companion(kept, process)
    if not companion.exists():
        return None
    try:
        return read_evidence(kept, companion)
    except EvidenceError:
        return None


def _agreed_before(kept: Kept, evidence: Evidence) -> bool:
    """Whether an earlier run of the same sources was measured, and all of its gradients were those of its losses. Asked
    only where nothing but a ``backward`` of the program's own calls for the measure."""
    sources = only([s.facts.get("sources") for s in evidence.signs if s.kind in _MEASURED])
    for companion in kept.folder.parent.glob(f"*/{DEEPENED}*.json") if sources else ():
        try:
            first = Evidence.read(str(companion.with_name(companion.name.replace(DEEPENED, "evidence-"))))
            second = Evidence.read(str(companion))
        except EvidenceError:
            continue
        same = any(s.facts.get("sources") == sources for s in first.signs)
        looks = [look for s in second.signs if s.kind == GRADIENTS for look in s.facts.get("looks", ())]
        answers = [answer.get("answer") for look in looks for answer in look.get("answers", ())]
        told = first_sign(second.signs, "uncalled-backward")
        if same and told is None and answers and set(answers) == {"agrees"} and are_complete(second.signs):
            return True
    return False


def _companion(kept: Kept, process: Process) -> Path:
    return kept.folder / f"{DEEPENED}{process.pid}.json"


def _tell_why(extras: dict[str, Any], why: str) -> None:
    """Say in the first run's evidence why there is no second one."""
    extras["second_run"] = f"no second run has looked closer: {why}"


def _announce(announce: Announce, kept: Kept, evidence: Evidence, mode: str, limit: float, out: Path) -> None:
    kind = mode.split(":")[1]
    looked_for = _LOOKED_FOR["suspicion" if kind == "cuts" and evidence.raised is None else kind]
    steps = max((o.steps for o in evidence.optimizers), default=0)
    last = max((e.index for e in evidence.events), default=-1) if evidence.failing_event < 0 else evidence.failing_event
    announce(
        f"running the program once more to see {looked_for} (at most {limit:.0f} s; --no-rerun prevents it)",
        Standing(out, steps, last, kept.seconds, goes_on=False),
        limit,
    )


def _again(kept: Kept, evidence: Evidence, mode: str, limit: float, stop: Stop, announce: Announce | None) -> Evidence:
    with scratch() as out:
        longer = patience(limit)
        if announce is not None:
            _announce(announce, kept, evidence, mode, limit + longer, out)
        asked = full_mode(kept.request.mode, mode) if mode == RECORD else mode
        request = replace(kept.request, cwd=str(kept.cwd), mode=asked, timeout=limit, patience=longer)
        request.one_thread = mode.startswith("probe:whatif")
        seen = _SeenAgain if mode.startswith("probe:nonfinite") else _FailedAgain
        ended = launch_apart(request, out, stop, enough=seen(out, evidence))
        if seen is _SeenAgain:
            ended_alike = not ended.timed_out and not ended.refused and ended.exit_status == kept.exit_status
            own = _of_the_same_rank(ended.evidence, evidence.process)
            _add_look(kept, evidence, [*own, *(f for f in ended.evidence if f not in own)], mode, ended_alike)
            return evidence
        second = read_processes(kept, _of_the_same_rank(ended.evidence, evidence.process)).first
    if second is not None:
        second.signs = [
            s for s in second.signs if s.kind not in (LEFT_OUT, READ_PAST) or not _was_their_turn_later(evidence, s)
        ]
    if second is not None and _was_their_turn_later(evidence, second.as_if):
        evidence.signs += [s for s in second.signs if s.kind == GRADIENTS]
        evidence.optimizers, evidence.parameters = second.optimizers, second.parameters
        return evidence
    if second is not None and evidence.raised is None and _tells_more(second.as_if, second.signs):
        second.exit_status, second.seconds = evidence.exit_status, evidence.seconds
        add_later(evidence, second, not (ended.stopped or ended.timed_out))
        if ended.timed_out and second.as_if is None:
            second.extras["second_run"] = f"a second run has not come to all that it was to see: {_how(ended, limit)}"
        return second
    if mode.endswith(UNCOMPILED):
        return _without_compile(evidence, second, ended)
    if second is not None and same_failure(evidence, second):
        second.exit_status = evidence.exit_status
        second.seconds = evidence.seconds
        if mode == RECORD:
            second.probe = ""
        else:
            take_over(evidence, second, mode)
        if ended.stopped and second.raised is not None and evidence.raised is not None:
            # Ended before its own end could tell.
            second.raised.uncaught, second.raised.causes = evidence.raised.uncaught, evidence.raised.causes
        return second
    ended_how = _how(ended, limit)
    otherwise = "did not fail in the same way" if evidence.raised is not None else "saw nothing more"
    evidence.extras["second_run"] = (
        f"a second run, made to see more, {otherwise} ({ended_how}): the report is of the first run"
    )
    return evidence


def _how(ended: Ended, limit: float) -> str:
    if ended.refused:
        return f"it was ended, because it {ended.refused}"
    return (
        f"it was stopped after {limit:.0f} s" if ended.timed_out else f"it ended with exit status {ended.exit_status}"
    )


def _without_compile(evidence: Evidence, second: Evidence | None, ended: Ended) -> Evidence:
    """The second run's evidence where it has failed alike: what was compiled is seen there one by one."""
    off = "without torch.compile (TORCHDYNAMO_DISABLE=1)"
    alike = SECOND_TIME if message_of(evidence.raised, *SECOND_TIME) else VERSION
    if second is not None and message_of(second.raised, *alike):
        second.exit_status, second.seconds = evidence.exit_status, evidence.seconds
        second.extras["second_run"] = f"the program fails in the same way {off}: the report is of such a run"
        return second
    if second is None and ended.exit_status == 0 and not (ended.timed_out or ended.refused or ended.stopped):
        evidence.extras["second_run"] = f"{off} the program ran to its end: only what is compiled fails"
    else:
        evidence.extras["second_run"] = f"a second run {off} told nothing more: the report is of the first run"
    return evidence


def _tells_more(as_if: object, signs: list[Sign]) -> bool:
    """Whether a run that went on was seen to lose a graph."""
    return as_if is not None or any(s.kind in SECOND_LOOK for s in signs)


def _was_their_turn_later(first: Evidence, sign: Sign | None) -> bool:
    """Whether parameters that were cut off in the first steps got gradients later in the whole run."""
    if sign is None or "positions" not in sign.facts:
        return False
    optimizer = sign.facts.get("optimizer", sign.optimizer)
    still = {
        i
        for s in first.signs
        if s.kind in ("suspect-unreached", "suspect-zero", "suspect-hungry") and s.optimizer == optimizer
        for i in s.facts.get("positions", ())
    }
    return not still.issuperset(sign.facts.get("positions", ()))


class _FailedAgain:
    """Whether the second run has failed at the same event in the same way, and has had a moment to end by itself."""

    def __init__(self, out: Path, evidence: Evidence) -> None:
        self.arriving = Arriving(out)
        self.evidence = evidence
        self.since: float | None = None

    def __call__(self) -> bool:
        for second in self.arriving if self.since is None else ():
            if self.again(second) and second.process.rank == self.evidence.process.rank:
                self.since = time.monotonic()
        return self.since is not None and time.monotonic() - self.since > LEAVING

    def again(self, second: Evidence) -> bool:
        """Whether this is what the first run showed."""
        if self.evidence.raised is None:
            asked = first_sign(self.evidence.signs, GRADIENTS_ASKED) is not None
            measured = any(s.kind == GRADIENTS for s in second.signs)
            if asked or (measured and second.as_if is None):
                return are_complete(second.signs)
            return _tells_more(second.as_if, second.signs)
        return same_failure(self.evidence, second) and second.failing_event == self.evidence.failing_event


class _SeenAgain(_FailedAgain):
    """Whether the second run has told where the first value came from that is not finite."""

    def again(self, second: Evidence) -> bool:
        return look_of(second.signs) is not None


def _add_look(kept: Kept, evidence: Evidence, files: list[Path], mode: str, ended_alike: bool) -> None:
    """Add what the second run saw to the first one's sign; where it saw nothing, a sentence."""
    seen = [read_evidence(kept, file) for file in files]
    if any(take_look(evidence, s, mode) for s in sorted(seen, key=lambda s: _is_received(look_of(s.signs)))):
        return
    sign = nonfinite(evidence.signs)
    if mode.endswith(":all") and ended_alike and sign is not None and not _was_bad(sign):
        evidence.extras[NONE_MET] = True
        return
    evidence.extras["second_run"] = (
        "a second run that was to find where the nan or inf came from has met none: not observed again"
    )


def _is_received(look: object) -> bool:
    """Whether another process's value was met here: that one can tell where it began."""
    chain = look.get("chain") if isinstance(look, dict) else None
    return any(r.get("kind") == "received" for r in chain or () if isinstance(r, dict))


def _was_bad(sign: Sign) -> bool:
    """Whether the first run has met a value that is not finite by itself."""
    return bool(sign.count or sign.parameters or sign.facts.get("roots") or sign.facts.get("values"))


def _of_the_same_rank(files: list[Path], process: Process) -> list[Path]:
    """The files of the rank that failed, where there are ranks."""
    if process.rank < 0:
        return files
    found = []
    for file in files:
        try:
            if Evidence.read(str(file)).process.rank == process.rank:
                found.append(file)
        except EvidenceError:
            continue
    return found or files
