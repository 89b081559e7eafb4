"""The text of a patch, and the work that it takes."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path

from graphdoc.fixes.apply import unified
from graphdoc.fixes.kinds import Traits, build, known
from graphdoc.source.module import Source


def test_nothing_changed_gives_nothing():
    assert unified({"a.py": "x\n"}, {"a.py": "x\n"}) == ""
    assert unified({"a.py": "x\n"}, {}) == ""


def test_headers_and_hunks():
    old = "".join(f"line{i}\n" for i in range(1, 21))
    new = old.replace("line3\n", "LINE3\n").replace("line18\n", "line18\nmore\n")
    assert unified({"p/a.py": old}, {"p/a.py": new}) == (
        "--- a/p/a.py\n+++ b/p/a.py\n"
        "@@ -1,6 +1,6 @@\n line1\n line2\n-line3\n+LINE3\n line4\n line5\n line6\n"
        "@@ -16,5 +16,6 @@\n line16\n line17\n line18\n+more\n line19\n line20\n"
    )


def test_missing_final_newline_and_carriage_returns():
    assert unified({"a b.py": "x\r\ny"}, {"a b.py": "x\r\nz"}) == (
        "--- a/a b.py\t\n+++ b/a b.py\t\n@@ -1,2 +1,2 @@\n x\r\n"
        "-y\n\\ No newline at end of file\n+z\n\\ No newline at end of file\n"
    )
    assert unified({"a.py": ""}, {"a.py": "x\n"}).endswith("@@ -0,0 +1 @@\n+x\n")


def test_several_files_in_one_patch():
    patch = unified({"a.py": "x\n", "b.py": "y\n"}, {"a.py": "X\n", "b.py": "Y\n"})
    assert patch.count("--- a/") == 2 and patch.index("a/a.py") < patch.index("a/b.py")


def test_of_a_repeated_line_the_repetition_is_the_one_that_goes():
    old = "a\nloss.backward()\nloss.backward()\nb\n"
    assert unified({"a.py": old}, {"a.py": "a\nloss.backward()\nb\n"}).endswith(
        "@@ -1,4 +1,3 @@\n a\n loss.backward()\n-loss.backward()\n b\n"
    )
    at_the_end = unified({"a.py": "a\nb\na\nb\n"}, {"a.py": "a\nb\n"})
    assert at_the_end.endswith("@@ -1,4 +1,2 @@\n a\n b\n-a\n-b\n")


def parts_of(module: ast.Module, name: str) -> list[ast.stmt]:
    """The function of a kind, and whatever of its module that calls; other kinds have pages of their own."""
    named = {n.name: n for n in module.body if isinstance(n, ast.FunctionDef)}
    others = {n for n, f in named.items() if any("kind(" in ast.unparse(d) for d in f.decorator_list)} - {name}
    found = [name]
    for each in found:
        found += [
            n.id
            for n in ast.walk(named[each])
            if isinstance(n, ast.Name) and n.id in named.keys() - others - set(found)
        ]
    return [named[each] for each in dict.fromkeys(found)]


def read_of_args(parts: list[ast.stmt]) -> set[str]:
    """The arguments that are read there: ``args["x"]``, ``args.get("x")``, ``"x" in args``."""
    found: set[str] = set()
    for n in (n for part in parts for n in ast.walk(part)):
        if isinstance(n, ast.Subscript) and ast.unparse(n.value) == "args":
            found.add(ast.literal_eval(n.slice))
        elif isinstance(n, ast.Call) and ast.unparse(n.func) == "args.get":
            found.add(ast.literal_eval(n.args[0]))
        elif isinstance(n, ast.Compare) and ast.unparse(n.comparators[0]) == "args":
            found.add(ast.literal_eval(n.left))
    return found


def test_what_is_read_of_the_arguments_is_found():
    module = ast.parse('[args["a"], args.get("b", 1), "c" in args, args, other["d"]]')
    assert read_of_args(module.body) == {"a", "b", "c"}


def test_the_page_of_a_kind_tells_each_argument_that_it_reads():
    parsed = cache(lambda file: ast.parse(Path(file).read_text()))
    for kind, maker in known().items():
        module = parsed(inspect.getfile(inspect.unwrap(maker.edit)))
        page = inspect.getdoc(maker.edit) or ast.get_docstring(module) or ""
        told = re.findall(r"^    (\w[\w, ]*):", page.partition("Args:")[2], re.MULTILINE)
        names = {name for line in told for name in line.split(", ")}
        of_one_node = next(iter(inspect.signature(inspect.unwrap(maker.edit)).parameters)) == "source"
        assert names or of_one_node, kind
        assert read_of_args(parts_of(module, maker.edit.__name__)) <= names, kind


def test_what_a_kind_says_of_itself_is_asked_for():
    known_traits = {f.name for f in fields(Traits)}
    assert not {name: says for name, kind in known().items() if (says := kind.traits.keys() - known_traits)}


def patched(functions: int) -> tuple[str, int]:
    """The patch of a file of so many functions, and how many Python calls it took."""
    step = "def step_{}(self, x):\n    for i in range(3):\n        h = self.rnn(x, h)\n        h.sum().backward()\n\n"
    text = "import torch\n" + "".join(step.format(i) for i in range(functions))
    line = 5 * (functions // 2) + 5
    place = {"file": "a.py", "line": line, "column": 9, "end_line": line, "end_column": 27}
    calls = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        new = build("detach_after", {"a.py": Source("a.py", text)}, {"after": place, "paths": ["h"]})
        return unified({"a.py": text}, new), calls
    finally:
        sys.setprofile(None)


def test_the_work_grows_with_the_file_and_no_faster():
    patched(10)
    small, few = patched(100)
    large, many = patched(400)
    assert "+        h = h.detach()\n" in small and "+        h = h.detach()\n" in large
    assert many < 5 * few
