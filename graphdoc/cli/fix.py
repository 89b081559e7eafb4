"""``graphdoc fix``: print, list or apply the fixes for a kept run."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoc.cli.output import parse_reports, put, say, write_reports
from graphdoc.errors import UsageError

if TYPE_CHECKING:
    from graphdoc.launch.keep import Kept
    from graphdoc.model import Fix, Report


def command(
    evidence: Annotated[
        Path | None, typer.Argument(metavar="[EVIDENCE]", help="An evidence file or a run's folder; else the last run.")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Print the patch and write nothing.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the fixes, best first, and write nothing.")] = False,
    choose: Annotated[
        int | None, typer.Option("--choose", min=1, metavar="N", help="Take the fix with this number in the list.")
    ] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Apply also a fix that decides what the gradients mean.")
    ] = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not run the patched program to see what the fix does.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run the program to try the fix even where that is not done unasked.")
    ] = False,
    report: Annotated[
        list[str] | None,
        typer.Option("--report", metavar="FORMAT[:FILE]", help="Write a report as well; may be given several times."),
    ] = None,
) -> None:
    """Mend the program of the last run.

    With --diff the patch is printed, for `git apply` or `patch -p1`; the exit status is 0 when there is one, 1 when
    there is none and 2 after an error. Without it the patch is applied.
    """
    wanted = parse_reports(report or [])
    from graphdoc.diagnose import report_for
    from graphdoc.launch.keep import last_run, open_run

    kept = last_run(Path.cwd()) if evidence is None else open_run(evidence, Path.cwd())
    root = kept.cwd if kept.cwd.is_dir() else Path.cwd()
    _take_back(root)
    if not kept.trusted:
        kept = replace(kept, allowed=verify)
        say(_about_a_stranger(kept))
    result = report_for(kept, announce=say)
    changed = _changed_files(kept, root)
    _refuse_changed({span.file for d in result.diagnoses for span in d.spans}, changed, root)
    if result.diagnoses:
        from graphdoc.fixes import propose

        result = propose(kept, result, verify=not no_verify, progress=_progress)
    fixes = [fix for d in result.diagnoses for fix in d.fixes]
    if list_:
        put(_listing(fixes) if fixes else "There are no fixes for this run.\n", sys.stdout)
        write_reports(result, wanted)
        raise typer.Exit(0 if fixes else 1)
    fix = _select(fixes, choose)
    try:
        if fix is None:
            say(_why_none(result))
            raise typer.Exit(1)
        from graphdoc.fixes.apply import diff_bytes, patched
        from graphdoc.project import standing

        base = Path(fix.base) if fix.base else standing()
        contents = patched(fix.diff, base)
        _refuse_changed({str(path) for path in contents}, changed, root)
        if diff:
            say(_tried(fix))
            _print_patch(diff_bytes(fix.diff, base), base)
        elif fix.safety == "display":
            say(f"this fix is only shown, never applied: {fix.title} (--diff prints it)")
            raise typer.Exit(1)
        elif not kept.trusted:
            say(f"not applied, because the run was not recorded here: {fix.title}. --diff prints it for you to judge")
            raise typer.Exit(1)
        elif fix.safety == "unsafe" and not unsafe:
            note = f" {fix.note}" if fix.note else ""
            say(f"not applied, because it decides what the gradients mean: {fix.title}.{note} --unsafe applies it.")
            raise typer.Exit(1)
        else:
            _apply(fix, contents, base, root)
    finally:
        write_reports(result, wanted)


def _tried(fix: Fix) -> str:
    """One line on what the patch is and what its trial has measured, or that there was none."""
    summary = fix.verification.get("summary")
    measured = f": {summary}" if isinstance(summary, str) and summary else ""
    open_ = "tried, not verified" if fix.verification else "not tried"
    state = {True: "verified", False: "tried, and it does not hold", None: open_}[fix.verified]
    return f"{fix.title} [{fix.safety}, {state}]{measured}"


def _progress(line: str) -> None:
    """One line while a patched program runs; overwritten on a terminal, left out elsewhere."""
    if sys.stderr.isatty():
        from graphdoc.render.text import flat

        sys.stderr.write(f"\r\033[K{flat(line)}")
        sys.stderr.flush()


def _take_back(root: Path) -> None:
    """Mend what an earlier command has left half done."""
    from graphdoc.fixes.whole import recover

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


def _print_patch(data: bytes, base: Path) -> None:
    """The patch on stdout, byte for byte; on a terminal with all that could command it spelled out."""
    from graphdoc.project import standing, where_to_apply

    where = where_to_apply(base, standing())
    if where:
        say(where)
    sys.stdout.flush()
    if sys.stdout.isatty():
        put(data.decode("utf-8", "replace"), sys.stdout)
        return
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


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


def _select(fixes: list[Fix], choose: int | None) -> Fix | None:
    """The fix with this number, or the best one with a patch that did not fail when it was tried."""
    if choose is not None:
        if choose > len(fixes):
            raise UsageError(f"there is no fix number {choose}: `graphdoc fix --list` shows {len(fixes)}")
        if not fixes[choose - 1].diff:
            raise UsageError(f"fix number {choose} is described only, it has no patch: {fixes[choose - 1].title}")
        return fixes[choose - 1]
    return next((f for f in fixes if f.diff and f.safety != "display" and f.verified is not False), None)


def _why_none(result: Report) -> str:
    if not result.diagnoses:
        return "there is nothing to fix: no fault of the graph was found in this run"
    fixes = [fix for d in result.diagnoses for fix in d.fixes]
    if any(f.verified is False for f in fixes):
        return "no fix stood the test: `graphdoc fix --list` shows what was tried"
    code = result.diagnoses[0].code
    left_out = next((f"; {note}" for note in result.notes if note.startswith("a fix was left out")), "")
    return f"there is no patch for {code}: `graphdoc explain {code}` says more{left_out}"


def _listing(fixes: list[Fix]) -> str:
    from graphdoc.render.text import flat, statement

    lines = []
    for number, fix in enumerate(fixes, 1):
        state = {True: "verified", False: "failed when tried", None: "not tried"}[fix.verified]
        if not fix.diff:
            state = "no patch"
        lines.append(f"{number}. {flat(fix.title)} [{fix.safety}, {state}]\n")
        if fix.note:
            lines.append(f"   {statement(fix.note)}\n")
    return "".join(lines)


def _apply(fix: Fix, contents: dict[Path, bytes], base: Path, root: Path) -> None:
    """Write the patched files and say what was done and how to undo it, from where the user stands."""
    from graphdoc.fixes.whole import apply_whole
    from graphdoc.project import standing
    from graphdoc.render.text import statement

    here = standing()
    undo = os.path.relpath(apply_whole(contents, base, root), base)
    names = ", ".join(os.path.relpath(os.path.realpath(path), here) for path in contents)
    verified = "" if fix.verified else " It was not verified."
    there = [] if base == here else ["-C", os.path.relpath(base, here)]
    command = shlex.join(["git", *there, "apply", undo])
    put(f"{statement(fix.title)}: changed {names}.{verified}\nTo undo: {command}\n", sys.stdout)
