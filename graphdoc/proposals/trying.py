"""Has the candidates tried, best first, and notes what came of each; joins one with the fix of a next failure."""

from __future__ import annotations

import ast
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphdoc.diagnose import findings_for
from graphdoc.documents import decode, digest, read_source
from graphdoc.errors import Interrupted
from graphdoc.evidence import Evidence, Frame, Sign, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.fixes.apply import unified
from graphdoc.fixes.fix_kind import Args, CannotFix
from graphdoc.fixes.kinds import NO_TRAITS, Traits, build, safety_of, traits_of
from graphdoc.launch.isolation import CannotIsolate, CannotStart, Stop, check_ways, stoppable
from graphdoc.launch.keep import Kept
from graphdoc.model import Fix, Safety, Span
from graphdoc.project import is_installed, naming, working_directory
from graphdoc.proposals import Candidate
from graphdoc.redaction import redact
from graphdoc.source.effects import another_each_time
from graphdoc.source.layout import is_compound
from graphdoc.source.module import Source
from graphdoc.story.wording import one_line
from graphdoc.verify.compared import Results, Verdict, key_of
from graphdoc.verify.failing_again import failing_place
from graphdoc.verify.trial import LEAST, Trial

# How one goes on where a patch ends the failure and the program meets the next one: one patch for both.


ROUNDS = 2
"""Causes behind the first one that one patch may mend: each costs trials, and a longer chain is nobody's to judge."""
PLACES = 6
"""Failures behind the first one that one patch may mend: one cause at many lines (a table written by entries, ``.grad``
read all over a function) is one thing to judge, and takes a trial for each line."""
TOGETHER = "composed"
"""The kind of a patch that was put together; no module makes it, for its parts refer to different texts."""
EACH = 3
"""Remedies of the next failure that are put together with one patch for the first."""


@dataclass
class Composer:
    """What is needed to write a patch for two failures of one run: its evidence, and where the user's files lie.

    ``met`` are the texts of files that only a later failure names, by absolute path: each is what that run executed
    and what lies on the disk, by its hash in ``digests``.
    """

    kept: Kept
    evidence: Evidence
    root: Path
    here: Path
    met: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)

    def further(self, candidate: Candidate, failed: Evidence) -> list[Candidate]:
        """The patch together with each of the best remedies of the failure that the patched program met; none where
        that has no remedy, or enough have been put together already.
        """
        if len(candidate.chain) >= PLACES or not candidate.texts:
            return []
        failed.process.cwd = self.evidence.process.cwd
        names = {os.path.realpath(os.path.join(failed.process.cwd, name)): name for name in failed.sources}
        for path, text in candidate.texts.items():
            name = names.get(path)
            if name is not None:
                failed.sources[name] = text  # the run had this text; on the disk is the user's
        self._meet(failed, names, candidate.texts)
        found, _ = findings_for(failed)
        out: list[Candidate] = []
        for one in found[:1]:
            at = failing_place(failed)
            link = _link(at or next(iter(one.finding.spans), None), failed.message, one.cause.code, one.finding.title)
            if len(candidate.chain) >= ROUNDS and any(known["code"] != link["code"] for known in candidate.chain):
                break
            sources = {file: Source(file, text) for file, text in failed.sources.items()}
            same = self._same_call(at, failed)
            trains_through = _computes_anew(candidate) and same
            # Who else still needs a graph that is kept is not known where more may follow.
            for remedy in sorted(one.finding.remedies, key=frees):
                if trains_through and _cuts(remedy.kind, remedy.args):
                    continue  # this very loss is to train what the first part computes anew for it
                made = self._joined(candidate, remedy, sources, link)
                if same and made is not None and _adds_the_same(self._own(), candidate.texts, made.texts):
                    continue  # it has been done already, and the line that it adds has moved the failing one
                if made is not None and not any(made.texts == other.texts for other in out):
                    out.append(made)
                if len(out) == EACH:
                    break
        return out

    def restored(self, parent: Candidate, told: Sequence[Mapping[str, Any]]) -> list[Candidate]:
        """Patches that an earlier command has put together from this one, as they were kept."""
        out: list[Candidate] = []
        for one in told:
            texts = {str(path): str(text) for path, text in one["texts"].items()}
            known = {**self._ran(), **one.get("met", {})}
            if not all(self._unchanged(path, known.get(path, "")) for path in texts):
                continue
            safety: Safety = "safe" if one["safety"] == "safe" else "unsafe"
            remedy = Remedy(TOGETHER, str(one["title"]), safety, str(one["note"]), open=str(one.get("open", "")))
            chain = (*parent.chain, {str(k): str(v) for k, v in one["link"].items()})
            fix = self._fix(remedy, str(one["id"]), texts)
            if fix is not None:
                out.append(Candidate(fix, remedy, texts, chain=chain))
        return out

    def _joined(
        self, candidate: Candidate, remedy: Remedy, sources: Mapping[str, Source], link: dict[str, str]
    ) -> Candidate | None:
        if not remedy.is_complete:
            return None
        try:
            texts = build(remedy.kind, sources, remedy.args)
        except CannotFix:
            return None
        except Exception:
            return None  # a fix that breaks must not cost the user the patch that it was to be added to
        mine = {os.path.realpath(os.path.join(self.evidence.process.cwd, file)): text for file, text in texts.items()}
        if not all(self._known(path) for path in mine):
            return None
        whole = {**candidate.texts, **mine}
        if _draws_twice(self._own(), whole):
            return None  # two parts of one loss would be of different draws
        safety: Safety = "safe" if remedy.safety == candidate.fix.safety == "safe" else "unsafe"
        title = _title(candidate, link["at"], remedy.title)
        known = candidate.fix.note
        notes = [n for n in (known, "" if remedy.note.rstrip(".") in known else remedy.note) if n]
        note = notes[0] if len(notes) == 1 else " ".join(n if n.endswith(".") else f"{n}." for n in notes)
        known_open = candidate.remedy.open if candidate.remedy is not None else ""
        left = "; and ".join(dict.fromkeys(o for o in (known_open, remedy.open) if o))
        joined = Remedy(TOGETHER, title, safety, note, open=left)
        fix = self._fix(joined, f"{candidate.fix.id}+{remedy.kind}", whole)
        return Candidate(fix, joined, whole, chain=(*candidate.chain, link)) if fix is not None else None

    def _same_call(self, at: Frame | None, failed: Evidence) -> bool:
        """Whether the later failure is that of the line of the first; a patch moves lines, and keeps their text."""
        first = failing_place(self.evidence)
        if at is None or first is None or not at.in_function_of(first):
            return False
        return _line(self.evidence.sources, first) == _line(failed.sources, at) != ""

    def _fix(self, joined: Remedy, ident: str, texts: Mapping[str, str]) -> Fix | None:
        own = self._own()
        if not set(texts) <= set(own):
            return None
        called = naming(texts, self.here, self.root)
        diff = unified({called.names[p]: own[p] for p in texts}, {called.names[p]: t for p, t in texts.items()})
        base = "" if called.base == working_directory() else str(called.base)
        fix = Fix(ident, joined.title, joined.safety, diff, joined.note, base=base)
        return replace(fix, verified=None) if diff else None

    def _known(self, path: str) -> bool:
        return path in self._own() and self.root in Path(path).parents

    def _own(self) -> dict[str, str]:
        """The text of each of the user's files of which it is known for certain what ran, by absolute path."""
        cwd = self.evidence.process.cwd or str(self.kept.cwd)
        first = {
            os.path.realpath(os.path.join(cwd, name)): text
            for name, text in self.evidence.sources.items()
            if self.evidence.hashes.get(name)
        }
        return {**self.met, **first}

    def _ran(self) -> dict[str, str]:
        """The hash of each file of the first evidence, by absolute path."""
        cwd = self.evidence.process.cwd or str(self.kept.cwd)
        return {os.path.realpath(os.path.join(cwd, name)): known for name, known in self.evidence.hashes.items()}

    def _meet(self, failed: Evidence, names: Mapping[str, str], patched: Mapping[str, str]) -> None:
        """Take up the files that the first evidence does not hold, where the disk still has what the trial ran."""
        own = self._own()
        for path, name in names.items():
            if path not in own and path not in patched and not is_installed(path):
                self._unchanged(path, failed.hashes.get(name, ""))

    def _unchanged(self, path: str, known: str) -> bool:
        """Whether the file's content is the one with this hash; then its text is known from here on."""
        data = read_source(path) if known else None
        if data is None or digest(data) != known:
            return False
        self.met[path], self.digests[path] = decode(data), known
        return True


def told_of(candidate: Candidate, digests: Mapping[str, str]) -> dict[str, Any]:
    """What is kept of a patch that was put together, to be had again without a run. ``digests``: the hash of each file
    that the first evidence does not hold, for nothing else would tell that it has been changed since.
    """
    return {
        "met": {path: digests[path] for path in candidate.texts if path in digests},
        "id": candidate.fix.id,
        "title": candidate.fix.title,
        "note": candidate.fix.note,
        "safety": candidate.remedy.safety if candidate.remedy is not None else "unsafe",
        "open": candidate.remedy.open if candidate.remedy is not None else "",
        "link": dict(candidate.chain[-1]),
        "texts": dict(candidate.texts),
    }


def _draws_twice(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a patch has put in one statement that draws, or takes the next batch, more than once."""
    for path, text in after.items():
        added = _taking(text)
        added.subtract(_taking(before.get(path, "")))
        if any(count > 1 for count in added.values()):
            return True
    return False


def _taking(text: str) -> Counter[str]:
    """The statements that take something, by their text, and how often each stands there."""
    found = Source("", text).node_statements()
    return Counter(ast.unparse(s) for s in found if not is_compound(s) and another_each_time(s))


def _adds_the_same(before: Mapping[str, str], patched: Mapping[str, str], more: Mapping[str, str]) -> bool:
    """Whether a patch upon a patch adds lines, and none but such as the first has added."""
    known, new = _added(before, patched), _added({**before, **patched}, more)
    return bool(new) and new <= known


def _added(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """The lines of which a patched text has more than the one before, without their indentation."""

    def lines(text: str) -> Counter[str]:
        return Counter(line.strip() for line in text.splitlines())

    return {line for path, text in after.items() for line in lines(text) - lines(before.get(path, "")) if line}


def _computes_anew(candidate: Candidate) -> bool:
    """Whether a patch computes again for each call what had been computed once, so that each trains through it."""
    # The id of one that was put together names the kinds of all its parts.
    return any(kind in candidate.fix.id for kind in ("move_into_loop", "compute_in_method", "uncache"))


def _cuts(kind: str, args: Args) -> bool:
    """Whether a remedy takes a value as a constant, in one of its parts at least."""
    parts = [(str(e["kind"]), e["args"]) for e in args.get("edits", ())] if kind == "several" else []
    cuts = kind.startswith(("detach", "no_grad")) or ".detach" in str(args.get("statement"))
    return cuts or any(_cuts(k, a) for k, a in parts)


def frees(remedy: Remedy) -> bool:
    """Whether a remedy takes ``retain_graph=True`` out beside what ends the failure."""
    return any(part["kind"] == "drop_keyword" for part in remedy.args.get("edits", ()))


def _title(candidate: Candidate, at: str, then: str) -> str:
    """What both do; the places at which the same is done again are told in a row."""
    told, end = candidate.fix.title, f": {then}"
    if candidate.chain and told.endswith(end):
        places = told.removesuffix(end)
        return told if places.endswith(at) else f"{places}, {at}{end}"
    return f"{told}; then, for {at}{end}"


def _line(sources: SourceTexts, frame: Frame) -> str:
    lines = sources.get(frame.file, "").splitlines()
    return lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else ""


def _link(at: Frame | Span | None, message: str, code: str, title: str) -> dict[str, str]:
    """One failure of the chain as the user reads it: where, which cause, and its title."""
    return {
        "at": f"{at.file}:{at.line}" if at is not None else "the next failure",
        "code": code,
        "title": title,
        "failure": one_line(redact(" ".join(message.split())), 160),
    }


SECONDS = 60.0
"""Seconds that all trials of one report may take together, if nothing else is asked for: as long as a person waits."""


@dataclass
class Trying:
    """How a user wants fixes to be tried, and what became of it.

    ``seconds`` for all of them together, and ``longer`` at most where they wait for a processor. ``asked``: also where
    nothing keeps the program from the user's files. ``announce`` is told in one line what will be run, before the first
    trial; ``progress`` which fix is tried, with what tells how far its trial has come, and an empty line at the end.
    ``only`` is the one fix to be tried, where the user has chosen it. ``interrupted`` is the number of the signal that
    ended it, 0 where none did.
    """

    seconds: float = SECONDS
    asked: bool = False
    announce: Callable[[str], None] | None = None
    progress: Callable[..., None] | None = None
    only: Fix | None = None
    interrupted: int = 0
    longer: float = 0.0

    def is_meant(self, fix: Fix) -> bool:
        """Whether this fix is to be tried; its safety is another one afterwards."""
        return self.only is None or (fix.title, fix.diff) == (self.only.title, self.only.diff)


Further = list[tuple["Candidate", "Candidate"]]
"""A patch that was put together from another and a remedy for the failure that that one met, beside that other."""


def recall(
    kept: Kept,
    candidates: Sequence[Candidate],
    composer: Composer | None = None,
    seconds: float = 0.0,
    asked: bool = False,
) -> Further:
    """Note what earlier trials of this run have found, if they were the user's own. Nothing is run.

    With ``seconds``, not what was left open for want of so many; with ``asked``, not what was refused a trial.
    """
    if not kept.trusted:
        return []
    results = Results(kept.folder)
    further: Further = []
    waiting = _triable(candidates)
    while waiting:
        candidate = waiting.pop(0)
        verdict = results.get(_key(candidate), seconds, asked)
        if verdict is None:
            continue
        _note(candidate, verdict)
        if not candidate.settled and composer is not None:
            made = composer.restored(candidate, results.further(_key(candidate)))
            further += [(candidate, one) for one in made]
            waiting += made
    return further


def try_out(
    kept: Kept, evidence: Evidence, candidates: Sequence[Candidate], trying: Trying, composer: Composer | None = None
) -> Further:
    """Try candidates in their order until one passes or the time is used up; what is known already is not tried. One
    that passes with other random numbers stands behind one that passes without, so that is looked for.

    One that ends the failure, and lets the program run into another, is put together with the remedies of that other;
    these are tried behind the plain ones.
    """
    further = recall(kept, candidates, composer, trying.seconds, trying.asked)
    tried = [c for c in (*_triable(candidates), *(one for _, one in further)) if trying.is_meant(c.fix)]
    waiting: list[Candidate] = []
    for candidate in tried:
        if candidate.settled:
            break
        if not candidate.fix.verification:
            waiting.append(candidate)
    if not waiting or any(c.settled for c in tried):
        return _told(further)
    if kept.seconds >= trying.seconds:
        took, may = f"{kept.seconds:.0f} s", f"{trying.seconds:.0f} s (--verify-time)"
        _leave(waiting, f"not reached: the run took {took}, and trials may take {may}")
        return further
    try:
        with stoppable() as stop:
            if not trying.asked:
                check_ways(kept.request)
            if trying.announce is not None:
                trying.announce(_announcement(kept, len(tried), trying.seconds + trying.longer))
            _try(kept, evidence, _Queue(tried, waiting, further, composer), trying, stop)
        stop.check()
    except CannotStart as e:
        _leave(tried, str(e))
    except CannotIsolate as e:
        _leave(tried, f"{e} (--verify runs it all the same)")
    except Interrupted as e:
        trying.interrupted = e.number
        _leave(tried, "interrupted")
    finally:
        if trying.progress is not None:
            trying.progress("")
    return _told(further)


def _told(further: Further) -> Further:
    """Without those that were put together and never tried."""
    return [
        (parent, one)
        for parent, one in further
        if one.settled or one.fix.verification.get("tried", one.fix.verification)
    ]


@dataclass
class _Queue:
    """What is to be tried. ``waiting`` grows while it is: patches that were put together come last."""

    tried: list[Candidate]
    waiting: list[Candidate]
    further: Further
    composer: Composer | None

    def go_on(self, results: Results, parent: Candidate, failed: Evidence, elsewhere: bool) -> None:
        """Put the patch together with remedies of the failure that it met. Where that came from another call it is a
        fault of its own, which no other remedy of the first one mends: then the best goes first."""
        if self.composer is None:
            return
        made = self.composer.further(parent, failed)
        known = [c.texts for c in self.tried]
        made = [c for c in made if c.texts not in known]
        if made:
            results.keep_further(_key(parent), [told_of(c, self.composer.digests) for c in made])
            self.further += [(parent, c) for c in made]
            self.tried += made
            self.waiting[:] = [*made[:1], *self.waiting, *made[1:]] if elsewhere else [*self.waiting, *made]

    def pop(self, late: bool) -> Candidate:
        """The next one; where half of the time is gone, a patch that was put together comes before a plain one."""
        chained = next((c for c in self.waiting if c.chain), None) if late else None
        candidate = chained or self.waiting[0]
        self.waiting[:] = [c for c in self.waiting if c is not candidate]
        return candidate


def _announcement(kept: Kept, count: int, seconds: float) -> str:
    what = "the fix" if count == 1 else "the fixes"
    return (
        f"running {kept.request.command[0]} again to try {what}, for at most {seconds:.0f} s in all "
        "(--verify-time; --no-verify prevents it)"
    )


def _try(kept: Kept, evidence: Evidence, queue: _Queue, trying: Trying, stop: Stop) -> None:
    results = Results(kept.folder)
    told: dict[tuple[str, str], list[Sign]] = {}
    deadline = time.monotonic() + trying.seconds
    with Trial(kept, evidence, stop, trying.asked, trying.longer) as trial:
        while queue.waiting:
            rest = deadline + trial.waited - time.monotonic()
            if rest < LEAST:
                why = f"the {trying.seconds:.0f} s of --verify-time were over"
                for candidate in queue.waiting:
                    unreached = Verdict(None, f"not tried: {why}", {"tried": False, "open": True})
                    results.keep(_key(candidate), unreached, trying.seconds)
                _leave(queue.waiting, why)
                return
            candidate = queue.pop(rest < trying.seconds / 2)
            if trying.progress is not None:
                number = next(i for i, c in enumerate(queue.tried) if c is candidate)
                words = f"trying fix {number + 1} of {len(queue.tried)}: {candidate.fix.title}"
                trying.progress(words, trial.how_far)
            safe = _claimed(candidate) == "safe"
            diagnosis = candidate.diagnosis
            of = (diagnosis.code, diagnosis.title) if diagnosis is not None else ("", "")
            if of not in told:
                told[of] = _told_by(evidence, of)
            verdict = trial.of(candidate.texts, safe, rest, _traits(candidate), told[of])
            results.keep(_key(candidate), verdict, trying.seconds)
            _note(candidate, verdict)
            if candidate.settled:
                return
            if verdict.failed is not None:
                queue.go_on(results, candidate, verdict.failed, verdict.elsewhere)


def _told_by(evidence: Evidence, of: tuple[str, str]) -> list[Sign]:
    """The signs of a run that went on without which the diagnosis of this code and title would not be told, and those
    of the same parameters; all of them where that does not tell. The others are of faults of their own, which stay as
    they are."""
    if not any(of) or not evidence.went_on or len(evidence.signs) < 2:
        return evidence.signs
    own: list[Sign] = []
    for sign in evidence.signs:
        found, _ = findings_for(replace(evidence, signs=[s for s in evidence.signs if s is not sign]))
        if not any((f.cause.code, f.finding.title) == of for f in found):
            own.append(sign)
    whose = {name for sign in own for name in sign.parameters}
    return [s for s in evidence.signs if s in own or whose & {*s.parameters}] if own else evidence.signs


def _triable(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [c for c in candidates if c.texts and c.fix.is_complete]


def _traits(candidate: Candidate) -> Traits:
    remedy = candidate.remedy
    return traits_of(remedy.kind, remedy.args) if remedy is not None else NO_TRAITS


def _key(candidate: Candidate) -> str:
    return key_of(candidate.texts, _claimed(candidate) == "safe", _traits(candidate).keeps_numbers)


def _claimed(candidate: Candidate) -> str:
    """How safe it is by its kind; what it may be called depends on what is measured."""
    return candidate.remedy.safety if candidate.remedy is not None else candidate.fix.safety


def _is_safe(candidate: Candidate, verdict: Verdict) -> bool:
    """Whether one that is safe by its kind is so after its trial."""
    untold = verdict.unmeasured or verdict.without_reference
    measured = candidate.fix.safety == "safe" or "max_relative_difference" in verdict.data
    if candidate.remedy is None:
        return verdict.equal and not untold
    return verdict.equal and safety_of(candidate.remedy, measured and not untold) == "safe"


def _note(candidate: Candidate, verdict: Verdict) -> None:
    told = {name: redact(value) if name == "printed" else value for name, value in verdict.to_json().items()}
    if candidate.chain:
        told["chain"] = [dict(link) for link in candidate.chain]
    verified = verdict.verified
    if verified and candidate.remedy is not None and candidate.remedy.open:
        verified, told["summary"] = None, f"{told['summary']}; but {candidate.remedy.open}"
    fix = replace(candidate.fix, verified=verified, verification=told)
    if _claimed(candidate) == "safe" and not _is_safe(candidate, verdict):
        # Called safe, and not measured to be: it must not be applied without the user's leave.
        fix = replace(fix, safety="unsafe", verification={**told, "called": "safe"})
    elif _claimed(candidate) == "safe":
        fix = replace(fix, safety="safe", called="")
    candidate.fix = fix
    candidate.settled = (bool(verdict.verified) or verdict.unmeasured) and not verdict.draws_again


def _leave(waiting: Sequence[Candidate], why: str) -> None:
    """Note on those that have not been tried why that is."""
    for candidate in waiting:
        if not candidate.fix.verification:
            candidate.fix = replace(candidate.fix, verification={"tried": False, "summary": f"not tried: {why}"})
