"""Running a program and telling about it: what ``graphdoc run`` and ``show`` do once their options are read.

Imports little before the program starts: everything between the user's Enter and the program's first line is felt.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import shlex
import stat
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoc.cli.arguments import Asked
from graphdoc.cli.arguments import reports as settings_reports
from graphdoc.cli.output import Wanted, check_format, parse_reports, put, say, show, tell_github, write_reports
from graphdoc.errors import Interrupted, UsageError, missing_dependency
from graphdoc.launch import Ended, Kind, Request, as_words, end_like, launch

if TYPE_CHECKING:
    from graphdoc.launch.keep import Kept
    from graphdoc.model import Report


NOTICED = 3.0
"""Seconds that a program ran from which on a second run of it is waited for: the report of the first comes before."""
_WHERE = "install graphdoc beside the program's torch: `PYTHON -m pip install torch-graphdoc`, with its PYTHON"


def run(kind: Kind, words: Sequence[str], reports: Sequence[str], asked: Asked) -> int:
    """Run the program, keep what was recorded, print and write the reports; returns the status to end with.

    ``words`` is the program and its arguments, ``reports`` are values of ``--report``; without one the project's
    settings say which reports are written. If the program died by a
    signal, so does this process.

    Raises:
        UsageError: the program cannot be started, or a report is of no known format. Nothing has been written.
    """
    request = Request(list(words), kind, cwd=os.getcwd(), mode=asked.mode)
    script = request.command[:1] if kind == "script" else []
    wanted = parse_reports(reports, sources=script) if reports else settings_reports(Path.cwd())
    if request.kind == "script":
        check_script(request.command[0])
    as_words(request)  # what cannot be started leaves no run
    # Before the folder of this run takes the place of an old one.
    known = _findings_of(asked.baseline, asked.mode) if asked.baseline else frozenset()
    _take_back()
    folder, trouble = _make_folder()
    ended = launch(request, folder)
    found = False
    try:
        found = _tell(request, ended, folder, trouble, wanted, known, rerun=asked.rerun)
    except (KeyboardInterrupt, Interrupted):
        say("interrupted")
    except Exception as e:
        if os.environ.get("GRAPHDOC_DEBUG"):
            sys.excepthook(*sys.exc_info())
        say(missing_dependency(e) or f"internal error after the program had ended: {type(e).__name__}: {e}")
    if folder is not None:
        from graphdoc.launch.folders import release

        release(folder)
    from graphdoc.launch.scratch import sweep

    sweep()
    return end_like(ended) or int(asked.strict and found)


def _take_back() -> None:
    """Do not run sources that an interrupted ``graphdoc fix`` has left half patched."""
    from graphdoc.launch.folders import PLACE, UNDER_WAY

    if os.path.lexists(os.path.join(PLACE, UNDER_WAY)):
        from graphdoc.fixes.apply import recover

        line = recover(Path.cwd())
        if line:
            say(line)


def check_script(script: str) -> None:
    """Refuse, before anything starts, what cannot run.

    Raises:
        UsageError: the script is missing, is a notebook or cannot be read.
    """
    if script == "-":
        return
    if os.path.isdir(script):
        if not any(os.path.isfile(os.path.join(script, "__main__" + end)) for end in (".py", ".pyc")):
            raise UsageError(f"{script} is a folder without a __main__.py")
        return
    try:
        if stat.S_ISREG(os.stat(script).st_mode):  # a pipe (`<(…)`, a FIFO) gives its text once: to the program
            with open(script, "rb"):
                pass
    except OSError as e:
        raise UsageError(f"cannot open {script}: {e.strerror or e}{_meant(script)}") from e
    if script.endswith(".ipynb"):
        raise UsageError(f"{script} is a notebook, not a script: put `%load_ext graphdoc` into its first cell")


def _meant(script: str) -> str:
    """What somebody may have meant who names a script that is not there, as the end of a line."""
    import shutil

    if os.path.isfile(f"{script}.py"):
        return f"; did you mean {script}.py?"
    if not os.path.dirname(script) and shutil.which(script) is not None:
        return f"; {script} is a command: `graphdoc run -- {script} …`, or name the script alone"
    return ""


def _make_folder() -> tuple[Path | None, str]:
    """The folder for this run's evidence, and a line to say afterwards if it is not where it should be."""
    from graphdoc.launch.folders import PLACE, new_run, temporary_run

    try:
        return new_run(Path.cwd()), ""
    except OSError as e:
        reason = e.strerror or str(e)
    try:
        folder = temporary_run()
    except OSError:
        return None, f"{PLACE} cannot be made here ({reason}), so the program was not observed"
    return folder, f"{PLACE} cannot be made here ({reason}); {_recorded_in(folder)}"


def _recorded_in(folder: Path) -> str:
    return f"what was recorded is in {folder} (`graphdoc fix {folder}`)"


def _tell(
    request: Request,
    ended: Ended,
    folder: Path | None,
    trouble: str,
    wanted: list[Wanted],
    known: frozenset[str],
    *,
    rerun: bool,
) -> bool:
    """Print and write the report without what is ``known``; whether it has a diagnosis."""
    from graphdoc.launch.keep import alone, keep

    kept = keep(folder or Path(os.devnull), request, ended, rerun=rerun)
    if folder is not None:
        try:
            if any(file.parent != folder for file in kept.evidence):
                raise OSError(errno.ENOSPC, "nothing can be written there any more")
            kept.save()
        except OSError as e:
            kept = _elsewhere(kept, e)
    first = _First(kept, known)
    result = _without(_diagnose(kept, first), known)
    seen = result.observed
    # Silence says that nothing is wrong. Where torch never came there was no graph, unless there were other processes
    # in which it did.
    elsewhere = not seen.torch and ended.exit_status != 0 and not alone(kept)
    if first.told is not None or result.diagnoses or result.notes or not seen.complete or elsewhere:
        show(result, "terminal", sys.stderr, first.told)
    elif first.asked:
        say("looked closer: nothing to report")
    if ended.exit_status and request.kind != "command" and importlib.util.find_spec("torch") is None:
        say(f"the program ran with graphdoc's Python, {sys.executable}, which has no torch; {_WHERE}")
    for line in [trouble, *ended.troubles][:4]:
        if line and line not in seen.why:
            say(line)
    write_reports(result, wanted)
    tell_github(result, wanted)
    return bool(result.diagnoses)


def _elsewhere(kept: Kept, error: OSError) -> Kept:
    """The run kept in memory, because its folder takes nothing; or not at all, which costs only what comes later."""
    line = f"the run cannot be kept in {kept.folder} ({error.strerror or error})"
    try:
        kept = kept.save_in_memory()
        say(f"{line}; {_recorded_in(kept.folder)}")
    except OSError:
        say(line)
    return kept


@dataclass
class _First:
    """The report of the first run alone, told before a second one to somebody who would have to wait for that: on a
    terminal, where it is not over at once. A log is read afterwards, and has one report. ``told`` is what was told,
    ``asked`` whether a second run was about to begin."""

    kept: Kept
    known: frozenset[str]
    told: Report | None = None
    asked: bool = False

    def tell(self) -> bool:
        """Tell it, if that is called for; whether there was anything to tell."""
        from graphdoc.cli.output import is_terminal

        self.asked = True
        if self.kept.seconds < NOTICED or not is_terminal():
            return False
        from graphdoc.diagnose import so_far

        try:
            report = _without(with_patches(self.kept, so_far(self.kept)), self.known)
            if report.diagnoses or report.notes:
                show(report, "terminal", sys.stderr)
                self.told = report
        except Exception:
            return False  # the report that follows says it
        return self.told is not None


def _diagnose(kept: Kept, first: _First) -> Report:
    """The report for a run; if our own diagnosis breaks, the bare facts and a line about it."""
    if not kept.evidence and kept.exit_status == 0:
        return bare_report(kept)
    try:
        return with_patches(kept, diagnosed(kept, first.tell))
    except Exception as e:
        if os.environ.get("GRAPHDOC_DEBUG"):
            sys.excepthook(*sys.exc_info())
        from graphdoc.model import Observed

        why = missing_dependency(e) or f"{type(e).__name__}: {e}"
        return replace(bare_report(kept), observed=Observed(False, True, f"the run could not be diagnosed: {why}"))


def diagnosed(kept: Kept, before: Callable[[], object] = lambda: None) -> Report:
    """The report for a run; that of the first run alone where the second one is interrupted. ``before`` is called
    ahead of that, and tells whether something was told."""
    from graphdoc.cli.output import Waiting
    from graphdoc.diagnose import report_for

    try:
        with Waiting() as waiting:

            def announce(line: str, how_far: object, most: float) -> None:
                waiting.announce(f"looking closer: {line}" if before() else line, how_far, most)

            return report_for(kept, announce=announce)
    except Interrupted:
        report = report_for(replace(kept, rerun=False))
        return replace(report, notes=(*report.notes, "no second run has looked closer: it was interrupted"))


def with_patches(kept: Kept, report: Report, *, recall: bool = False) -> Report:
    """The report with the diffs of its fixes; without them where the sources have changed meanwhile.

    Nothing is tried; ``recall`` tells what earlier trials of this run have found.
    """
    if not report.diagnoses:
        return report
    try:
        import libcst  # noqa: F401  (each fix would fail by itself)

        from graphdoc.proposals.propose import propose
        from graphdoc.proposals.trying import Trying

        return propose(kept, report, verify=False, trying=Trying() if recall else None)
    except UsageError as e:
        say(str(e))
        return report
    except ModuleNotFoundError as e:
        if not missing_dependency(e):
            raise
        say(f"{missing_dependency(e)} (so the fixes below have no patch)")
        return report


def bare_report(kept: Kept) -> Report:
    """What is known of a run without looking at its evidence."""
    import platform

    from graphdoc.launch.keep import observed
    from graphdoc.model import Report, Run
    from graphdoc.redaction import redact_words

    command = tuple(redact_words(kept.request.command))
    run = Run(command, platform.python_version(), "", kept.exit_status, kept.seconds)
    return Report(run, "completed" if kept.exit_status == 0 else "other-failure", observed=observed(kept))


# ``graphdoc run --baseline RUN``: a report without the findings that an earlier run had as well.


def _findings_of(place: str, mode: str) -> frozenset[str]:
    """The fingerprints of what was found in a kept run, looked at as closely as ``mode`` asks for; nothing is run.

    Raises:
        UsageError: there is no such run, or it cannot be read.
    """
    from graphdoc.diagnose import report_for
    from graphdoc.launch.keep import open_run
    from graphdoc.render.story import fingerprint

    kept = open_run(Path(place), Path.cwd())
    report = report_for(replace(kept, rerun=False, request=replace(kept.request, mode=mode)))
    return frozenset(fingerprint(report, d) for d in report.diagnoses)


def _without(report: Report, known: frozenset[str]) -> Report:
    """The report without the findings that are known, and a note on these."""
    if not known:
        return report
    from graphdoc.render.story import fingerprint

    left_out = [d for d in report.diagnoses if fingerprint(report, d) in known]
    if not left_out:
        return report
    codes = ", ".join(dict.fromkeys(d.code for d in left_out))
    note = f"not told, because the baseline has it as well: {codes}"
    told = tuple(d for d in report.diagnoses if d not in left_out)
    return replace(report, diagnoses=told, notes=(*report.notes, note))


# What ``graphdoc show`` does once its words are read.


def show_run(evidence: Path | None, fmt: str = "terminal", reports: Sequence[str] = (), *, rerun: bool = False) -> None:
    """Print the report of a kept run, of the last one without ``evidence``, and write the other ``reports``.

    Raises:
        UsageError: there is no such run or format, or a report must not be written where it is asked for.
    """
    check_format(fmt)
    wanted = parse_reports(reports)
    from graphdoc.launch.keep import last_run, open_run

    kept = last_run(Path.cwd()) if evidence is None else open_run(evidence, Path.cwd())
    result = with_patches(kept, diagnosed(replace(kept, rerun=rerun and kept.rerun)), recall=True)
    if evidence is not None:
        fixed_by = f"{result.run.fixed_by} {shlex.quote(str(evidence))}"
        result = replace(result, run=replace(result.run, fixed_by=fixed_by))
    if fmt == "terminal" and not (result.diagnoses or result.notes):
        from graphdoc.render.story import not_observed, verdict

        if not not_observed(result):
            put(verdict(result) + "\n", sys.stdout)
    show(result, fmt, sys.stdout)
    write_reports(result, wanted)
