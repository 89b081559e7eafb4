"""A diff becomes files: byte for byte, all of them or none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoc.errors import UsageError
from graphdoc.fixes.apply import apply, diff_bytes, encoding_of, patched, undo_patch, unified

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "é", "--- x", "+++ y", "@@ -1 +1 @@"]), max_size=9)


def joined(lines: list[str], end: str, last: bool) -> str:
    return end.join(lines) + (end if lines and last else "")


@settings(max_examples=300)
@given(LINES, LINES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_patched_is_the_new_text(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str], end: str, left: bool, right: bool
) -> None:
    root = tmp_path_factory.getbasetemp()
    before, after = joined(old, end, left), joined(new, end, right)
    (root / "t.py").write_bytes(before.encode())
    diff = unified({"t.py": before}, {"t.py": after})
    if diff:
        assert patched(diff, root) == {root / "t.py": after.encode()}


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encoding_and_line_ends_stay(tmp_path: Path, encoding: str, end: str) -> None:
    head = "# -*- coding: latin-1 -*-" if encoding == "latin-1" else "# ä"
    old = end.join([head, "x = 'é'", "y = x", ""])
    new = old.replace("y = x", "y = x + 'ü'")
    path = tmp_path / "t.py"
    path.write_bytes(old.encode(encoding))
    diff = unified({"t.py": old}, {"t.py": new})
    assert patched(diff, tmp_path)[path] == new.encode(encoding)
    subprocess.run(["git", "apply", "-"], input=diff_bytes(diff, tmp_path), cwd=tmp_path, check=True)
    assert path.read_bytes() == new.encode(encoding)


def test_text_gets_the_files_encoding_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_bytes("# coding: latin-1\r\nx = 'é'\r\n".encode("latin-1"))
    before = apply({path: "# coding: latin-1\nx = 'ü'\n"})
    assert path.read_bytes() == "# coding: latin-1\r\nx = 'ü'\r\n".encode("latin-1")
    assert before == {path: "# coding: latin-1\r\nx = 'é'\r\n".encode("latin-1")}


def test_all_or_none(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("1\n")
    two.write_text("# coding: ascii\n2\n")
    with pytest.raises(UsageError, match="nothing was changed"):
        apply({one: "10\n", two: "# coding: ascii\né\n"})
    with pytest.raises(UsageError, match=r"cannot write .*three\.py: No such file"):
        apply({one: "10\n", tmp_path / "three.py": "3\n"})
    assert one.read_text() == "1\n"
    assert sorted(os.listdir(tmp_path)) == ["one.py", "two.py"]


def test_a_link_stays_a_link_and_a_mode_a_mode(tmp_path: Path) -> None:
    real, link = tmp_path / "real.py", tmp_path / "link.py"
    real.write_text("1\n")
    real.chmod(0o640)
    link.symlink_to("real.py")
    apply({link: b"2\n"})
    assert link.is_symlink() and real.read_text() == "2\n" and real.stat().st_mode & 0o777 == 0o640


def test_another_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    diff = unified({"t.py": "a\nb\nc\n"}, {"t.py": "a\nB\nc\n"})
    for text in ("a\nx\nc\n", "new\na\nb\nc\n", "", "A\nb\nc\n"):
        path.write_text(text)
        with pytest.raises(UsageError, match=r"t\.py has changed since the run"):
            patched(diff, tmp_path)
    path.unlink()
    with pytest.raises(UsageError, match=r"cannot read t\.py"):
        patched(diff, tmp_path)


@pytest.mark.parametrize("name", ["../t.py", "/etc/t.py", "sub/../../t.py"])
def test_a_file_outside_the_project_is_left_alone(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "t.py").write_text("a\n")
    with pytest.raises(UsageError, match="lies outside"):
        patched(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-a\n+b\n", root)


def test_undo_leads_back(tmp_path: Path) -> None:
    name = "sub/the größe.py"
    path = tmp_path / name
    path.parent.mkdir()
    old, new = "# coding: latin-1\r\né = 1\r\nend".encode("latin-1"), b"# coding: latin-1\r\nx = 1\r\nend\r\n"
    path.write_bytes(new)
    subprocess.run(
        ["git", "apply", "-"], input=undo_patch({path: old}, {path: new}, tmp_path), cwd=tmp_path, check=True
    )
    assert path.read_bytes() == old


def test_an_encoding_that_does_not_exist_is_taken_for_utf8() -> None:
    assert encoding_of(b"# coding: nonsense\n") == "utf-8"
    assert encoding_of(b"\xef\xbb\xbfx = 1\n") == "utf-8"
