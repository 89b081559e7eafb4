"""Runs a program with other text for some of its files, without writing to them; used to try a fix.

Loaded by the start-up hook from beside it, only for such a run. Python itself runs the program as ever: what is changed
is where it finds the text, for imports, for the main script, and for a main script that a spawned child reads again.
"""

from __future__ import annotations

import ast
import json
import linecache
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any


def install(file: str) -> None:
    """Read the JSON object {path: text} in ``file`` and put those texts in the place of the files.

    Raises:
        OSError, ValueError: the file cannot be read or is not such an object.
    """
    with open(file, encoding="utf-8") as stream:
        texts = {os.path.realpath(path): str(text) for path, text in json.load(stream).items()}
    for path in texts:
        _seed_linecache(path, texts[path])
    sys.meta_path.insert(0, _Finder(texts))
    _patch_runpy(texts)
    script = _main_script()
    if script and os.path.realpath(script) in texts:
        _patch_main(script, texts[os.path.realpath(script)])


def _seed_linecache(path: str, text: str) -> None:
    """Tracebacks and ``inspect`` show the patched text. An entry without a time is never checked against the disk."""
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


def _main_script() -> str:
    """The file that this process runs as a script, or an empty string (``-m``, ``-c``, interactive)."""
    first = sys.argv[0] if sys.argv else ""
    return os.path.abspath(first) if first not in ("", "-", "-c", "-m") and os.path.isfile(first) else ""


class _Loader(SourceFileLoader):
    """The ordinary loader with the text given to it: no bytecode is read or written."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.path, "exec", dont_inherit=True)

    def get_source(self, fullname: str) -> str:
        return self.text

    def get_data(self, path: Any) -> bytes:
        return self.text.encode() if path == self.path else super().get_data(path)


class _Finder:
    """Finds modules as everybody else does and exchanges the loader of those that are patched.

    It goes back to the front when others were put before it: pytest's, which compiles test files by itself.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if sys.meta_path[0] is not self and self in sys.meta_path:
            sys.meta_path.remove(self)
            sys.meta_path.insert(0, self)
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None and (spec.origin or self._gone(name, path) is None):
                self._exchange(name, spec)
                return spec
        return self._gone(name, path)

    def _gone(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """A module whose file is there no longer, or not yet: there is its text alone."""
        last = name.rpartition(".")[2]
        for folder in sys.path if path is None else path:
            for rest in (os.path.join(last, "__init__.py"), f"{last}.py"):
                file = os.path.join(os.path.realpath(folder), rest)
                if file in self.texts:
                    spec = ModuleSpec(name, _Loader(name, file, self.texts[file]), origin=file)
                    spec.has_location = True
                    spec.submodule_search_locations = [os.path.dirname(file)] if rest != f"{last}.py" else None
                    return spec
        return None

    def _exchange(self, name: str, spec: ModuleSpec) -> None:
        if not spec.origin or not spec.origin.endswith(".py") or isinstance(spec.loader, _Loader):
            return
        text = self.texts.get(os.path.realpath(spec.origin))
        if text is not None:
            _seed_linecache(spec.origin, text)
            spec.loader = _Loader(name, spec.origin, text)
            spec.cached = None

    def invalidate_caches(self) -> None:
        pass


def _patch_runpy(texts: Mapping[str, str]) -> None:
    """Spawned children read the main script through ``runpy.run_path``."""
    original = runpy._get_code_from_file  # type: ignore[attr-defined]
    gives_name = original.__code__.co_argcount == 2  # up to Python 3.11 it takes and returns one thing more

    def get_code_from_file(*args: Any) -> Any:
        fname = os.fsdecode(args[-1])
        text = texts.get(os.path.realpath(fname))
        if text is None:
            return original(*args)
        _seed_linecache(fname, text)
        code = compile(text, fname, "exec", dont_inherit=True)
        return (code, fname) if gives_name else code

    runpy._get_code_from_file = get_code_from_file  # type: ignore[attr-defined]


class _MainLoader(_Loader):
    """Gives ``__main__`` its patched code and, just before it runs, the surroundings that a script has."""

    def get_code(self, fullname: str) -> CodeType:
        _MainFinder.retire(self.path)
        tree = ast.parse(self.text, self.path)
        # Python takes the script for a runnable folder now; a script has no spec and no package. Set at the very top,
        # below the docstring and the __future__ imports, on no line of its own.
        place = 0
        for statement in tree.body:
            docstring = place == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            if not docstring and not future:
                break
            place += 1
        tree.body[place:place] = ast.parse("__spec__ = __package__ = None").body
        return compile(tree, self.path, "exec", dont_inherit=True)


class _MainFinder:
    """What the path hook answers for the main script: the finder of a runnable folder that holds ``__main__``."""

    script = ""
    text = ""

    def __init__(self, entry: str) -> None:
        if not _MainFinder.script or os.path.realpath(entry) != os.path.realpath(_MainFinder.script):
            raise ImportError("not the main script")

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "__main__":
            return None
        loader = _MainLoader(name, _MainFinder.script, _MainFinder.text)
        spec = ModuleSpec(name, loader, origin=_MainFinder.script)
        spec.has_location = True
        return spec

    @staticmethod
    def retire(script: str) -> None:
        """Leave ``sys.path`` and the path hooks as they are when Python runs a plain script."""
        if _MainFinder in sys.path_hooks:
            sys.path_hooks.remove(_MainFinder)
        _MainFinder.script = ""
        for entry in [e for e in sys.path_importer_cache if os.path.realpath(e) == os.path.realpath(script)]:
            del sys.path_importer_cache[entry]
        if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(script):
            if sys.flags.safe_path:
                del sys.path[0]
            else:
                sys.path[0] = os.path.dirname(os.path.realpath(script))


def _patch_main(script: str, text: str) -> None:
    """Let Python run the patched main script by itself, with its own start and its own end.

    Before it opens the script, Python asks the path hooks whether the path is a folder or archive with a ``__main__``
    in it. This answers yes.
    """
    _seed_linecache(script, text)
    _MainFinder.script, _MainFinder.text = script, text
    sys.path_importer_cache.pop(script, None)
    sys.path_hooks.insert(0, _MainFinder)
