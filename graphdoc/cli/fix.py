"""``graphdoc fix``: print, list or apply the fixes for a kept run."""

from __future__ import annotations

import sys
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
    result = report_for(kept, announce=say)
    changed = _changed_files(kept, root)
    _refuse_changed({span.file for d in result.diagnoses for span in d.spans}, changed, root)
    if result.diagnoses:
        import libcst  # noqa: F401  (without it each fix would fail by itself; the command says it once)

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

        contents = patched(fix.diff, root)
        _refuse_changed({str(path) for path in contents}, changed, root)
        if diff:
            say(_tried(fix))
            sys.stdout.flush()
            sys.stdout.buffer.write(diff_bytes(fix.diff, root))
            sys.stdout.buffer.flush()
        elif fix.safety == "display":
            say(f"this fix is only shown, never applied: {fix.title} (--diff prints it)")
            raise typer.Exit(1)
        elif fix.safety == "unsafe" and not unsafe:
            note = f" {fix.note}" if fix.note else ""
            say(f"not applied, because it decides what the gradients mean: {fix.title}.{note} --unsafe applies it.")
            raise typer.Exit(1)
        else:
            _apply(fix, contents, root)
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
        sys.stderr.write(f"\r\033[K{line}" if line else "\r\033[K")
        sys.stderr.flush()


def _changed_files(kept: Kept, root: Path) -> set[Path]:
    """The observed source files whose text is no longer what ran."""
    import hashlib

    from graphdoc.evidence import Evidence

    changed = set()
    for file in kept.evidence:
        for name, digest in Evidence.read(str(file)).hashes.items():
            path = (root / name).resolve()
            try:
                same = hashlib.sha256(path.read_bytes()).hexdigest() == digest
            except OSError:
                same = False
            if not same:
                changed.add(path)
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
        from graphdoc.render.story import not_observed

        if not_observed(result):
            return not_observed(result)
        return "there is nothing to fix: no fault of the graph was found in this run"
    fixes = [fix for d in result.diagnoses for fix in d.fixes]
    if any(f.verified is False for f in fixes):
        return "no fix stood the test: `graphdoc fix --list` shows what was tried"
    return f"there is no patch for {result.diagnoses[0].code}: `graphdoc explain {result.diagnoses[0].code}` says more"


def _listing(fixes: list[Fix]) -> str:
    lines = []
    for number, fix in enumerate(fixes, 1):
        state = {True: "verified", False: "failed when tried", None: "not tried"}[fix.verified]
        if not fix.diff:
            state = "no patch"
        lines.append(f"{number}. {fix.title} [{fix.safety}, {state}]\n")
        if fix.note:
            lines.append(f"   {fix.note}\n")
    return "".join(lines)


def _apply(fix: Fix, contents: dict[Path, bytes], root: Path) -> None:
    """Write the patched files and say what was done and how to undo it."""
    from graphdoc.files import write_whole
    from graphdoc.fixes.apply import apply, undo_patch
    from graphdoc.launch.keep import PLACE

    undo = root / PLACE / "undo.patch"
    before = {path: path.read_bytes() for path in contents}
    try:
        undo.parent.mkdir(exist_ok=True)
        write_whole(undo, undo_patch(before, contents, root))
    except OSError as e:
        raise UsageError(f"cannot write {undo}, so nothing was changed: {e.strerror or e}") from e
    apply(contents)
    names = ", ".join(path.relative_to(root).as_posix() for path in contents)
    verified = "" if fix.verified else " It was not verified."
    put(f"{fix.title}: changed {names}.{verified}\nTo undo: git apply {PLACE}/undo.patch\n", sys.stdout)
