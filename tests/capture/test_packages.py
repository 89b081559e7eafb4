"""Which distribution a frame's file belongs to, by whatever records its installer left, and which lines are kept."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from installed import install

from graphdoc.capture.places import code_places
from graphdoc.capture.places.code_places import installed_below, is_user_file
from graphdoc.capture.written_evidence import MOST_LINES, add_packages
from graphdoc.evidence import LAST_LINE, Evidence, Frame, Node, Package, Process

MODULE = """\
def outer():
    x = 1

    def inner(a,
              b):
        y = a
        # a comment

        return y + b

    return inner


class Other:
    pass
"""


def told(folder: Path, *frames: Frame) -> Evidence:
    """Evidence of a node with this stack below the user's line, with its packages."""
    evidence = Evidence(process=Process(cwd=str(folder)))
    evidence.nodes.append(Node(0, "AddBackward0", stack=[Frame("train.py", 1), *frames]))
    add_packages(evidence)
    return evidence


def frame(path: str, line: int = 6, function: str = "outer.<locals>.inner") -> Frame:
    return Frame(f"site-packages/{path}", line, 1, line, 10, function, False)


def test_distribution_of_another_name_and_a_module_that_is_one_file(tmp_path: Path) -> None:
    install(tmp_path, "Tiny_Things", "1.0", {"tiny.py": MODULE})
    install(tmp_path, "other", "2.0", {"other/__init__.py": MODULE})
    evidence = told(tmp_path, frame("tiny.py"), frame("other/__init__.py"))
    assert sorted(p.told for p in evidence.packages) == ["Tiny_Things 1.0", "other 2.0"]
    package = evidence.package("site-packages/tiny.py")
    assert package is not None and package.version == "1.0"


def test_folder_that_several_distributions_share(tmp_path: Path) -> None:
    install(tmp_path, "space-one", "1.0", {"space/one/a.py": MODULE})
    install(tmp_path, "space", "9.0", {"space/two/b.py": MODULE})
    evidence = told(tmp_path, frame("space/one/a.py"), frame("space/two/b.py"), frame("space/two/b.py", 2, "outer"))
    names = {f: p.told for p in evidence.packages for f in p.files}
    assert names == {"site-packages/space/one/a.py": "space-one 1.0", "site-packages/space/two/b.py": "space 9.0"}


def test_folders_of_one_distribution_are_one_package(tmp_path: Path) -> None:
    install(tmp_path, "wide", "1.0", {"wide/a.py": MODULE, "wide/b/c.py": MODULE})
    (package,) = told(tmp_path, frame("wide/a.py"), frame("wide/b/c.py")).packages
    assert len(package.files) == 2


def test_failure_of_ours_is_told_and_costs_nothing_else(tmp_path: Path) -> None:
    evidence = Evidence(process=Process(cwd=str(tmp_path)))
    evidence.nodes.append(Node(0, "AddBackward0", stack=[Frame(None, 1, user=False)]))  # type: ignore[arg-type]
    add_packages(evidence)
    assert evidence.packages == [] and "were not looked up" in evidence.degraded[0]


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of ``sys.path`` of which nothing is known yet."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(code_places, "_recorded", code_places._recorded.__wrapped__)
    return tmp_path


def test_what_pip_has_put_into_a_folder_of_any_name_is_no_file_of_the_users(on_path: Path) -> None:
    install(on_path, "Tiny_Things", "1.0", {"tiny/core.py": MODULE}, into=".")
    (on_path / "train.py").write_text("from tiny.core import outer\n")
    (on_path / "tiny/mine.py").write_text(MODULE)
    assert not is_user_file(str(on_path / "tiny/core.py"))
    assert is_user_file(str(on_path / "train.py"))
    assert is_user_file(str(on_path / "tiny/mine.py"))  # no installer has it in its records
    assert installed_below(str(on_path / "tiny/core.py")) == (str(on_path), "tiny/core.py")


def test_a_project_that_is_installed_to_be_edited_stays_the_users(on_path: Path) -> None:
    (on_path / "mine").mkdir()
    (on_path / "mine/net.py").write_text(MODULE)
    for info, record in (("mine-0.1.dist-info", "__editable__.mine-0.1.pth,,\n"), ("mine.egg-info", "mine/net.py\n")):
        (on_path / info).mkdir()
        (on_path / info / ("RECORD" if "dist" in info else "SOURCES.txt")).write_text(record)
    assert is_user_file(str(on_path / "mine/net.py"))


def test_the_records_of_another_folder_say_nothing(on_path: Path) -> None:
    install(on_path, "tiny", "1.0", {"tiny/core.py": MODULE}, into="elsewhere")
    assert is_user_file(str(on_path / "elsewhere/tiny/core.py"))  # imported by another way than `elsewhere`


def test_package_of_a_folder_of_any_name_is_told_with_its_path_below(on_path: Path) -> None:
    install(on_path, "tiny", "1.0", {"tiny/core.py": MODULE}, into=".")
    frames = [Frame("tiny/core.py", 6, 1, 6, 10, "outer.<locals>.inner", False)]
    (package,) = told(on_path, *frames).packages
    assert (package.told, package.path_of("tiny/core.py")) == ("tiny 1.0", "tiny/core.py")
    (package,) = told(on_path.parent, replace(frames[0], file=f"{on_path.name}/tiny/core.py")).packages
    assert (package.folder, package.path_of(package.files[0])) == (on_path.name, "tiny/core.py")


def test_module_without_records_goes_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages/alone.py").write_text(MODULE)
    assert told(tmp_path, frame("alone.py")).packages[0].told == "alone"


def test_a_systems_package_has_only_the_names_of_its_modules(tmp_path: Path) -> None:
    info = tmp_path / "dist-packages/Sys_Thing-3.1.egg-info"
    info.mkdir(parents=True)
    (info / "PKG-INFO").write_text("Metadata-Version: 1.2\nName: Sys-Thing\nVersion: 3.1\n")
    (info / "top_level.txt").write_text("systhing\n")
    (tmp_path / "dist-packages/systhing.py").write_text(MODULE)
    at = Frame("dist-packages/systhing.py", 6, 1, 6, 10, "inner", False)
    assert told(tmp_path, at).packages[0].told == "Sys-Thing 3.1"


def test_broken_records_break_nothing(tmp_path: Path) -> None:
    site = install(tmp_path, "broken", "1.0", {"broken.py": MODULE})
    (site / "broken-1.0.dist-info/RECORD").write_bytes(b"\xff\xfe\x00broken.py")
    (site / "broken-1.0.dist-info/METADATA").write_bytes(b"\xff")
    assert told(tmp_path, frame("broken.py")).packages[0].name == "broken"


def test_pytorch_python_and_the_user_are_no_packages(tmp_path: Path) -> None:
    here = Frame("/usr/lib/python3.11/contextlib.py", 3, function="inner", user=False)
    assert not told(tmp_path, frame("torch/nn/modules/module.py"), here).packages


def test_the_function_around_a_line_is_kept_at_its_own_numbers(tmp_path: Path) -> None:
    install(tmp_path, "tiny", "1.0", {"tiny.py": MODULE})
    package = told(tmp_path, frame("tiny.py", 6)).packages[0]
    lines = package.text("site-packages/tiny.py").splitlines()
    assert lines[3:9] == MODULE.splitlines()[3:9] and not any(lines[:3]) and len(lines) == 9


def test_frames_that_only_lead_to_another_of_a_package_keep_no_lines(tmp_path: Path) -> None:
    install(tmp_path, "tiny", "1.0", {"tiny.py": MODULE, "deep.py": MODULE})
    package = told(tmp_path, frame("tiny.py", 11, "outer"), frame("deep.py", 6)).packages
    assert sorted(f for p in package for f in p.files) == ["site-packages/deep.py", "site-packages/tiny.py"]
    assert [f for p in package for f in p.sources] == ["site-packages/deep.py"]


def test_of_a_long_function_the_lines_around_are_kept(tmp_path: Path) -> None:
    long = "def inner():\n" + "    x = 1\n" * 3 * MOST_LINES
    install(tmp_path, "tiny", "1.0", {"tiny.py": long})
    near = told(tmp_path, frame("tiny.py", 2 * MOST_LINES, "inner")).packages[0]
    assert sorted(map(int, near.sources["site-packages/tiny.py"])) == list(
        range(2 * MOST_LINES - 2, 2 * MOST_LINES + 3)
    )


def test_missing_file_is_told_without_lines(tmp_path: Path) -> None:
    install(tmp_path, "tiny", "1.0", {"tiny.py": MODULE})
    (tmp_path / "site-packages/tiny.py").unlink()
    package = told(tmp_path, frame("tiny.py", 6)).packages[0]
    assert package.told == "tiny 1.0" and not package.text("site-packages/tiny.py")


def test_packages_cross_as_json(tmp_path: Path) -> None:
    install(tmp_path, "tiny", "1.0", {"tiny.py": MODULE})
    evidence = told(tmp_path, frame("tiny.py", 6))
    assert Evidence.from_json(json.loads(json.dumps(evidence.to_json()))).packages == evidence.packages
    older = evidence.to_json()
    del older["packages"]
    assert Evidence.from_json(older).packages == []


@pytest.mark.parametrize("number", ["99999999999", "٣", "-1", "x", "1" * 5000, str(LAST_LINE + 1)])
def test_line_numbers_that_cannot_be_are_left_out(number: str) -> None:
    package = Package("p", "1", ["f.py"], {"f.py": {number: "text", "2": "kept"}})
    assert package.text("f.py").splitlines() == ["", "kept"]
