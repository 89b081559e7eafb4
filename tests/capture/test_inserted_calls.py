"""Callbacks inserted into a function stay that function's own."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from graphdoc.capture.process.inserted_calls import insert_calls

MODULE = """\
class Door:
    def __enter__(self):
        return "door"


class Gate:
    def __enter__(self):
        return "gate"
"""


def loaded(folder: Path) -> ModuleType:
    file = folder / "doors.py"
    file.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("doors", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_methods_of_one_name_in_one_module_keep_their_own_callbacks(tmp_path: Path) -> None:
    module = loaded(tmp_path)
    seen: list[str] = []
    undo = [
        insert_calls(
            cls.__enter__, before=lambda *_, n=name: seen.append(n), failed=lambda *_: None, after=lambda *_: None
        )
        for cls, name in ((module.Door, "door"), (module.Gate, "gate"))
    ]
    assert [module.Door().__enter__(), module.Gate().__enter__()] == ["door", "gate"]
    assert seen == ["door", "gate"]
    undo.pop()()
    assert module.Door().__enter__() == "door"
    assert seen == ["door", "gate", "door"]
    undo.pop()()
    assert not any(name.startswith("_graphdoc") for name in vars(module))


def test_what_a_function_gives_back_is_seen_and_goes_on_its_way(tmp_path: Path) -> None:
    module = loaded(tmp_path)
    seen: list[object] = []

    def gave(token: object, value: object) -> object:
        seen.append((token, value))
        return value

    undo = insert_calls(
        module.Door.__enter__, before=lambda *_: "token", failed=lambda *_: None, after=lambda *_: None, gave=gave
    )
    assert module.Door().__enter__() == "door"
    assert seen == [("token", "door")]
    # What was inserted stands at the statement that it belongs to.
    assert {place[0] for place in module.Door.__enter__.__code__.co_positions()} <= {None, 2, 3}
    undo()
    assert module.Door().__enter__() == "door"
    assert len(seen) == 1 and not any(name.startswith("_graphdoc") for name in vars(module))
