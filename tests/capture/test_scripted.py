"""The places inside TorchScript's interpreter, read out of the text of its error."""

from __future__ import annotations

from pathlib import Path

from graphdoc.capture.failures import scripted_frames

SOURCE = """\
import torch


class Policy(torch.jit.ScriptModule):
    def sample(self, x):
        a, b = torch.chunk(x, 2)
        return a + b.clamp_(0, 1)


def outer(p, x):
    return p.sample(x)
"""


def text(path: Path) -> str:
    return f"""\
The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
  File "{path}", line 11, in outer
def outer(p, x):
    return p.sample(x)
           ~~~~~~~~ <--- HERE
  File "{path}", line 7, in sample
    def sample(self, x):
        a, b = torch.chunk(x, 2)
        return a + b.clamp_(0, 1)
                   ~~~~~~~~ <--- HERE
RuntimeError: Output 1 of Split is a view and is being modified inplace.
"""


def test_the_calls_that_are_underlined_are_told_as_frames(tmp_path: Path) -> None:
    path = tmp_path / "policy.py"
    path.write_text(SOURCE)
    outer, sample = scripted_frames(text(path), str(tmp_path))
    assert (outer.file, outer.line, outer.function, outer.user) == ("policy.py", 11, "outer", True)
    assert SOURCE.splitlines()[6][sample.column - 1 : sample.end_column - 1] == "b.clamp_(0, 1)"


def test_a_file_that_has_changed_gives_the_line_without_columns(tmp_path: Path) -> None:
    path = tmp_path / "policy.py"
    path.write_text(SOURCE.replace("clamp_(0, 1)", "clamp_(0, 2)"))
    assert [f.column for f in scripted_frames(text(path), str(tmp_path))] == [12, 0]


def test_other_errors_and_missing_files_give_none(tmp_path: Path) -> None:
    assert scripted_frames("RuntimeError: Output 1 of Split is a view", str(tmp_path)) == []
    assert scripted_frames(text(tmp_path / "gone.py"), str(tmp_path)) == []
