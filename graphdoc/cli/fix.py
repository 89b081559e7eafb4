"""``graphdoc fix``: print, list or apply the fixes for a kept run."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoc.cli.output import REPORT_HELP, Waiting, parse_reports, put, say, write_reports, writing_to
from graphdoc.cli.runs import RUN
from graphdoc.errors import UsageError

if TYPE_CHECKING:
    from graphdoc.launch.keep import Kept
    from graphdoc.model import Fix, Report

NOT_VERIFIED = 3
"""The exit status of ``--diff`` where no trial has verified the patch that is printed: one was not run, or left it
open."""


def command(
    evidence: Annotated[Path | None, RUN] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Print the patch and write nothing.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the fixes, best first, and write nothing.")] = False,
    choose: Annotated[
        int | None, typer.Option("--choose", min=1, metavar="N", help="Take the fix with this number in the list.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last applied patch back.")] = False,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Apply also a fix that decides what the gradients mean.")
    ] = False,
    verify: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify",
            help="Run the patched program to see what the fix does: the default where that leaves no mark on your "
            "files; --verify runs it in any case.",
        ),
    ] = None,
    verify_time: Annotated[
        float, typer.Option("--verify-time", min=1.0, metavar="SECONDS", help="How long all trials may take together.")
    ] = 60.0,
    no_rerun: Annotated[
        bool, typer.Option("--no-rerun", help="Never run the program a second time to find out more.")
    ] = False,
    report: Annotated[list[str] | None, typer.Option("--report", metavar="FORMAT[:FILE]", help=REPORT_HELP)] = None,
) -> None:
    """Mend the program of the last run.

    With --diff the patch is printed, for `git apply` or `patch -p1`; the exit status is 0 when it is verified, 3 when
    it is not, 1 when there is none and 2 after an error. Without --diff the patch is applied. Ctrl-C prints and changes
    nothing, and ends with 130.
    """
    if undo:
        return _undo(Path.cwd(), alone=not (evidence or diff or list_ or choose or report))
    wanted = parse_reports(report or [])
    from graphdoc.diagnose import report_for
    from graphdoc.launch.keep import last_run, open_run

    kept = last_run(Path.cwd()) if evidence is None else open_run(evidence, Path.cwd())
    if no_rerun:
        kept = replace(kept, rerun=False)
    root = kept.cwd if kept.cwd.is_dir() else Path.cwd()
    _finish(root)
    if not kept.trusted:
        kept = replace(kept, allowed=bool(verify))
        say(_about_a_stranger(kept))
    with Waiting() as waiting:
        result = report_for(kept, announce=waiting.announce)
    changed = _changed_files(kept, root)
    _refuse_changed({span.file for d in result.diagnoses for span in d.spans}, changed, root)
    told = [fix for d in result.diagnoses for fix in d.fixes]
    trying = None
    if result.diagnoses:
        import libcst  # noqa: F401  (without it each fix would fail by itself; the command says it once)

        from graphdoc.launch.isolation import patience
        from graphdoc.proposals.propose import propose
        from graphdoc.proposals.trying import Trying

        longer = patience(verify_time)
        waiting = Waiting(verify_time + longer)
        trying = Trying(verify_time, bool(verify), say, waiting.tell, longer=longer)
        if choose is not None and not list_:
            # The number is one of the list as it stands before anything is tried, and that one is tried alone.
            standing = propose(kept, result, verify=False, trying=trying)
            trying.only = _numbered([fix for d in standing.diagnoses for fix in d.fixes], choose)
        with waiting:
            result = propose(kept, result, verify=verify is not False, trying=trying)
    fixes = [fix for d in result.diagnoses for fix in d.fixes]
    interrupted = 128 + trying.interrupted if trying is not None and trying.interrupted else 0
    if list_:
        put(_listing(fixes, result.left_out), sys.stdout)
        write_reports(result, wanted)
        raise typer.Exit(interrupted or int(not fixes))
    chosen = [f for f in fixes if trying is not None and trying.is_meant(f)] if choose is not None else []
    fix = _best(fixes) if choose is None else _numbered(chosen or fixes, 1 if chosen else choose)
    patch = b""
    try:
        if interrupted:
            say(f"interrupted, so {'no patch is printed' if diff else 'nothing was changed'}")
            raise typer.Exit(interrupted)
        if fix is None:
            say(_why_none(result))
            raise typer.Exit(1)
        from graphdoc.fixes.apply import diff_bytes, patched
        from graphdoc.line_changes import parse
        from graphdoc.project import working_directory

        base = Path(fix.base) if fix.base else working_directory()
        # The trials have taken their time, and what was tried is what is printed or applied.
        _refuse_changed({os.path.join(base, file.path) for file in parse(fix.diff)}, _changed_files(kept, root), root)
        contents = patched(fix.diff, base)
        if choose is None:
            _say_each(_passed_over(fix, fixes, told))
        if diff:
            patch = diff_bytes(fix.diff, base)
        elif why_not := _why_not_applied(fix, kept.trusted, unsafe):
            _say_each(why_not)
            raise typer.Exit(1)
        else:
            _apply(fix, contents, base, root)
    finally:
        write_reports(result, wanted)
    if diff:
        _print_patch(fix, patch, base)
        raise typer.Exit(0 if fix.verified else NOT_VERIFIED)


def _say_each(lines: Sequence[str]) -> None:
    for line in lines:
        say(line)


def _tried(fix: Fix) -> str:
    """One line on what the patch is and what its trial has measured, or that there was none."""
    from graphdoc.render.story import badge, to_fill_in

    summary = _summary(fix)
    left = f"; fill in {to_fill_in(fix)}" if to_fill_in(fix) else ""
    return f"{fix.title} [{badge(fix)}]{f': {summary}' if summary else ''}{left}"


def _state(fix: Fix) -> str:
    from graphdoc.render.story import trial

    return "to fill in" if fix.verified is None and fix.placeholders else trial(fix)


def _summary(fix: Fix) -> str:
    """What the trial has measured, or why there was none."""
    return str(fix.verification.get("summary", "")).removeprefix("not tried: ")


def _passed_over(fix: Fix, fixes: list[Fix], told: list[Fix]) -> list[str]:
    """What the trials have changed: the fixes that the report told before this one, and what came of them."""
    order = [(f.title, f.note) for f in told]

    def place(one: Fix) -> int:
        return order.index((one.title, one.note)) if (one.title, one.note) in order else len(order)

    before = [f for f in fixes if f.is_complete and f is not fix and place(f) < place(fix)]
    return [f"the report has another fix first: {f.title} [{_state(f)}]: {_summary(f)}" for f in before if _summary(f)]


def _finish(root: Path) -> None:
    """Mend what an earlier command has left half done."""
    from graphdoc.fixes.apply import recover

    line = recover(root)
    if line:
        say(line)


def _about_a_stranger(kept: Kept) -> str:
    """One line on evidence that came from elsewhere: what is in it is read, and nothing of it is run."""
    module = ["-m"] if kept.request.kind == "module" else []
    words = shlex.join([*module, *kept.request.command])
    told = "this run was not recorded here by you, as far as can be told"
    if kept.allowed:
        return f"{told}; as you ask for it, its program is run again: {words}"
    return f"{told}, so its program is not run again and nothing is tried; --verify runs it: {words}"


def _print_patch(fix: Fix, data: bytes, base: Path) -> None:
    """The patch on stdout, byte for byte; on a terminal with all that could command it spelled out."""
    from graphdoc.project import where_to_apply, working_directory

    say(_tried(fix))
    where = where_to_apply(base, working_directory())
    if where:
        say(where)
    _ignore_interrupts()  # whoever gets the patch gets its status with it
    if sys.stdout is None or sys.stdout.isatty():
        put(data.decode("utf-8", "replace"), sys.stdout)
        return
    with writing_to(sys.stdout):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _ignore_interrupts() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _changed_files(kept: Kept, root: Path) -> set[Path]:
    """The observed source files whose text is no longer what ran."""
    from graphdoc.processes import changed_sources, read_evidence

    changed: set[Path] = set()
    for file in kept.evidence:
        changed |= {(root / name).resolve() for name in changed_sources(read_evidence(kept, file))}
    return changed


def _refuse_changed(names: set[str], changed: set[Path], root: Path) -> None:
    for name in sorted(names):
        path = (root / name).resolve()
        if path in changed:
            state = "has changed since the run" if path.exists() else "is no longer there"
            raise UsageError(f"{name} {state}: run the program again first")


def _numbered(fixes: list[Fix], number: int) -> Fix:
    """The fix with this number in the list, from 1."""
    if number > len(fixes):
        raise UsageError(f"there is no fix number {number}: `graphdoc fix --list` shows {len(fixes)}")
    if not fixes[number - 1].diff:
        raise UsageError(f"fix number {number} is described only, it has no patch: {fixes[number - 1].title}")
    return fixes[number - 1]


def _best(fixes: list[Fix]) -> Fix | None:
    """The best fix with a complete patch that did not fail when it was tried."""
    return next((f for f in fixes if f.is_complete and f.verified is not False), None)


def _why_not_applied(fix: Fix, trusted: bool, unsafe: bool) -> list[str]:
    """Why a fix is only to be printed, a line each: the reason, the fix, its effect, and what to do; none where it may
    be applied."""
    if fix.safety == "display":
        why, way = "this fix is only shown", "--diff prints it"
    elif fix.safety == "placeholders" and not unsafe:
        why, way = "it is to be filled in", "--diff prints it; --unsafe writes it as it is"
    elif not trusted:
        why, way = "the run was not recorded here", "--diff prints it for you to judge"
    elif fix.safety == "unsafe" and not unsafe:
        why, way = _why_unsafe(fix), "--diff prints it; --unsafe applies it"
    else:
        return []
    return [f"not applied: {why}", _tried(fix), *([fix.note] if fix.note else []), way]


def _why_unsafe(fix: Fix) -> str:
    """Why a fix is not applied unasked: by its nature, or by what its trial came to (``proposals.trying``)."""
    from graphdoc.verify.compared import TOLERANCE

    told = fix.verification
    if told.get("unmeasured"):
        return "its gradients could not be measured"
    if told.get("without_reference"):
        return "there was nothing to compare its gradients with"
    if told.get("max_relative_difference", 0.0) > TOLERANCE:
        return "its gradients are not those of the program as it is written"
    if fix.called == "safe":
        return "its gradients cannot be compared with those of the program as it is written"
    return "it decides what the gradients mean"


def _why_none(result: Report) -> str:
    if not result.diagnoses:
        return _why_no_cause(result)
    fixes = [fix for d in result.diagnoses for fix in d.fixes]
    if any(f.verified is False for f in fixes):
        return "none of the fixes worked: `graphdoc fix --list` shows what was tried"
    open_ = next((n for n, f in enumerate(fixes, 1) if f.diff and f.placeholders), 0)
    if open_:
        left = ", ".join(f"`{name}`" for name in fixes[open_ - 1].placeholders)
        return f"there is no complete patch: `graphdoc fix --diff --choose {open_}` prints one with {left} to fill in"
    code = result.diagnoses[0].code
    left_out = f"; left out: {result.left_out[0]}" if result.left_out else ""
    return f"there is no patch for {code}: `graphdoc explain {code}` says more{left_out}"


def _why_no_cause(result: Report) -> str:
    from graphdoc.render.story import not_observed

    if unseen := not_observed(result):
        return unseen
    if result.outcome == "autograd-failure":
        return "there is no patch: the run does not show which cause its failure has (`graphdoc show`)"
    if result.exception is not None and result.notes:
        return "there is no patch: `graphdoc show` says what is known of this failure"
    note = ", only a note (`graphdoc show`)" if result.notes else ""
    return f"there is nothing to fix: no fault of the graph was found in this run{note}"


def _listing(fixes: list[Fix], left_out: Sequence[str]) -> str:
    from graphdoc.render.story import badge, to_fill_in
    from graphdoc.render.text import flat, statement

    lines = [] if fixes else ["There are no fixes for this run.\n"]
    for number, fix in enumerate(fixes, 1):
        lines.append(f"{number}. {flat(fix.title)} [{badge(fix)}]\n")
        if fix.note:
            lines.append(f"   {statement(fix.note)}\n")
        if to_fill_in(fix):
            lines.append(f"   fill in {to_fill_in(fix)}\n")
        if _summary(fix):
            lines.append(f"   {_state(fix)}: {statement(_summary(fix))}\n")
        printed = str(fix.verification.get("printed", ""))
        if fix.verified is not True and printed and printed not in _summary(fix):
            lines.append(f"   the last line that it printed: {flat(printed)}\n")
    lines += [f"left out: {statement(reason)}\n" for reason in left_out]
    return "".join(lines)


def _apply(fix: Fix, contents: dict[Path, bytes], base: Path, root: Path) -> None:
    """Write the patched files and say what was done and how to undo it, from where the user stands."""
    from graphdoc.fixes.apply import apply_whole
    from graphdoc.project import working_directory
    from graphdoc.render.story import to_fill_in
    from graphdoc.render.text import statement

    here = working_directory()
    _ignore_interrupts()  # half of it told would be worse than all of it done
    undo = os.path.relpath(apply_whole(contents, base, root), base)
    names = _told_from(here, contents)
    why = f" ({_summary(fix)})" if _summary(fix) else ""
    verified = "" if fix.verified else f" It was not verified{statement(why)}."
    if fix.placeholders:
        verified = f" Fill in, before you run it: {to_fill_in(fix)}."
    there = [] if base == here else ["-C", os.path.relpath(base, here)]
    ours = here == Path(os.path.realpath(root))
    command = "graphdoc fix --undo" if ours else shlex.join(["git", *there, "apply", undo])
    put(f"{statement(fix.title)}: changed {names}.{verified}\nTo undo: {command}\n", sys.stdout)


def _undo(cwd: Path, *, alone: bool) -> None:
    """Take back the last patch that was applied for a run in this folder, and say so.

    Raises:
        UsageError: something else is asked for beside it, or it cannot be.
    """
    if not alone:
        raise UsageError("--undo takes back the last patch that was applied here, and goes with nothing else")
    from graphdoc.fixes.apply import take_back
    from graphdoc.project import working_directory

    _finish(cwd)
    _ignore_interrupts()
    files = take_back(cwd)
    are = "is" if len(files) == 1 else "are"
    put(f"Took the last fix back: {_told_from(working_directory(), files)} {are} as before.\n", sys.stdout)


def _told_from(here: Path, paths: Iterable[Path]) -> str:
    """The names of files as somebody who stands ``here`` would write them."""
    return ", ".join(os.path.relpath(os.path.realpath(path), here) for path in paths)
