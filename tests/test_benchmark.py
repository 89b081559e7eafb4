"""fixtures/benchmark: what is said of each program is true, and the scorer gives marks that can be trusted."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

import pytest

from graphdoc.causes import all_causes

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import score  # type: ignore[import-not-found]  # noqa: E402

TASKS = score.tasks()
ADDRESS = re.compile(
    r"https://(github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+|discuss\.pytorch\.org/t/[\w-]+/\d+(/\d+)?|"
    r"stackoverflow\.com/questions/\d+(/[\w-]+)?)"
)


def source(task: score.Task, name: str = "train.py") -> str:
    return str((task.folder / name).read_text(encoding="utf-8"))


def test_every_folder_is_a_program() -> None:
    folders = {p.name for p in score.PROGRAMS.iterdir() if p.is_dir()}
    assert {task.name for task in TASKS} == folders
    assert len(TASKS) >= 60
    assert len({task.title for task in TASKS}) == len(TASKS)


def test_the_files_fit_together() -> None:
    for task in TASKS:
        fits_together(task)


def fits_together(task: score.Task) -> None:
    assert task.report and all(ADDRESS.fullmatch(link) for link in task.report)
    assert set(task.cause) <= {cause.slug for cause in all_causes()} and task.cause
    assert task.patch in ("same", "alive", "none") and task.answer.strip() and task.twin.strip()
    assert task.fixed or task.patch == "none"
    written = [line.strip() for line in source(task).splitlines()]
    assert task.lines and all(written.count(line) == 1 for line in task.lines)
    assert 12 <= len(written) <= 80
    versions = ["train.py", "twin.py", *(path.name for path in task.fixed)]
    texts = [source(task, name) for name in versions]
    assert len(set(texts)) == len(texts)
    for text in texts:
        compile(text, task.name, "exec")


@pytest.mark.slow
def test_each_version_runs_as_it_should() -> None:
    """The sick ones end as said and do not pass for mended; the right ones and the twins run to their end."""
    plain = [task for task in TASKS if not task.launch]
    names = {task: ["train.py", "twin.py", *(path.name for path in task.fixed)] for task in TASKS}
    told = score.ran(plain[0], *(source(task, name) for task in plain for name in names[task]))
    found = dict(zip([(task, name) for task in plain for name in names[task]], told, strict=True))
    for task in TASKS:
        if task.launch:
            found |= {(task, name): score.ran(task, source(task, name))[0] for name in names[task]}
    wrong = []
    for task in TASKS:
        sick = found[task, "train.py"]
        if (sick.status != 0) != bool(task.ends) or task.ends not in sick.err:
            wrong.append((task.name, "ends", sick.err[-200:]))
        for name in names[task][1:]:
            if found[task, name].status != 0:
                wrong.append((task.name, name, found[task, name].err[-200:]))
        for path in task.fixed if task.patch != "none" else []:
            right = found[task, path.name]
            if not task.agrees(right, right) or (not task.ends and task.agrees(sick, right)):
                wrong.append((task.name, path.name, "is not told from the faulty program"))
    assert not wrong


@pytest.mark.slow
def test_a_right_patch_is_told_from_a_wrong_one(tmp_path: Path) -> None:
    task = next(task for task in TASKS if task.name == "char_rnn_hidden_state")
    line = "logits, hidden = model(chunk, hidden)"
    before = source(task).splitlines(keepends=True)
    number = before.index(f"    {line}\n") + 1

    def answered(new: str) -> dict[str, object]:
        after = [*before[: number - 1], f"    {new}\n", *before[number:]]
        patch = "".join(difflib.unified_diff(before, after, "a/train.py", "b/train.py"))
        (tmp_path / f"{task.name}.diff").write_text(patch)
        (tmp_path / f"{task.name}.toml").write_text(f'cause = "carried-state"\nlines = [{number}]\n')
        return dict(score.score(task, "answers", lambda *asked: score.answers(*asked, tmp_path)))

    right, wrong = (
        answered("logits, hidden = model(chunk, hidden.detach())"),
        answered("logits, _ = model(chunk, hidden)"),
    )
    assert (right["cause"], right["line"], right["fix"], right["twin"]) == (True, True, True, True)
    assert (wrong["cause"], wrong["line"], wrong["fix"]) == (True, True, False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["char_rnn_hidden_state", "attention_gate_scaled_in_place"])
def test_graphdoc_is_scored(name: str) -> None:
    task = next(task for task in TASKS if task.name == name)
    row = score.score(task, "graphdoc", score.graphdoc)
    assert {key: row[key] for key in score.COUNTED} == dict.fromkeys(score.COUNTED, True)


def test_the_page_tells_how_many_programs_there_are() -> None:
    assert f"{len(TASKS)} programs" in (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")
