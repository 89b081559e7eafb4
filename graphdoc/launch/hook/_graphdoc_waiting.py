"""Waiting for torch: the moment at which it has been executed in this process, in whatever way it comes in.

The start-up hook imports this from beside it, and it leaves ``sys.modules`` at once; the doors into a process that runs
already import it as a part of graphdoc. Nothing is imported here that Python has not already imported.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any


class Watch:
    """Waits until torch has been executed, in whatever way it comes in, and calls ``then`` at that moment; for each of
    ``others``, by its name, what is to follow its import.

    Nothing stands in ``sys.meta_path``, where a program can see, pass or remove it. Two functions of importlib itself
    run another code meanwhile, with the same name, place and line and in no frame of their own:
    ``_call_with_frames_removed``, in which every loader of files executes a module (also a lazy one, or one that the
    program executes by hand), and the end of an import's lock, which every import statement and every reload reaches,
    whatever finder and loader have served it (Lib/importlib/_bootstrap.py, Python 3.11 to 3.14). The first is given
    back when torch is there, the second stays for a reload.
    """

    def __init__(
        self,
        then: "Callable[[], None]",
        begun: "Callable[[], None]",
        again: "Callable[[], None]",
        others: "dict[str, Callable[[], None]] | None" = None,
    ) -> None:
        self.then = then
        self.begun = begun
        self.again = again
        self.others = others or {}
        self.loading = self.over = False
        importlib: Any = sys.modules["_frozen_importlib"]
        self.function = importlib._call_with_frames_removed
        self.code = self.function.__code__
        end = importlib._ModuleLockManager.__exit__
        codes = (
            _in_place_of(self.code, _call_with_frames_removed.__code__, {"executed": self.executed}),
            _in_place_of(end.__code__, _end_of_import.__code__, {"imported": self.imported}),
        )
        self.function.__code__, end.__code__ = codes

    def executed(self, names: "Any") -> None:
        """A loader has just executed the module with these global names; other threads still wait for it."""
        if names.get("__name__") == "torch":
            module = sys.modules.get("torch")
            if module is not None and getattr(module, "__dict__", None) is names:
                self.end()

    def imported(self, name: str) -> None:
        """An import of a module or its reload is over, by success or failure; its lock is still held."""
        if name in self.others:
            self.others[name]()
        if name != "torch" and (self.loading or not name.startswith("torch.")):
            return
        if not self.loading and "torch" in sys.modules:
            self.loading = True
            self.begun()
        if name == "torch" and self.over:
            self.again()
        elif name == "torch" and is_executed(sys.modules.get("torch")):
            self.end()

    def end(self) -> None:
        """Torch is there: give back what is no longer needed, and go on."""
        if not self.over:
            self.over = True
            self.function.__code__ = self.code
            self.then()


def is_awaited() -> bool:
    """Whether somebody in this process waits for torch already: the start-up hook, or a door."""
    importlib: Any = sys.modules["_frozen_importlib"]
    return any(callable(c) for c in importlib._ModuleLockManager.__exit__.__code__.co_consts)


def is_executed(module: "Any") -> bool:
    """Whether a module is there and its code has run to the end: a lazy one (importlib.util.LazyLoader) only waits."""
    if module is None or type(module).__name__ == "_LazyModule":
        return False
    return not getattr(getattr(module, "__spec__", None), "_initializing", False)


# The two codes below run with importlib's own globals; the texts in angle brackets are exchanged for functions.


def _call_with_frames_removed(f, *args, **kwds):  # type: ignore[no-untyped-def]
    result = f(*args, **kwds)
    if f is exec and len(args) == 2:
        executed: Any = "<executed>"
        executed(args[1])
    return result


def _end_of_import(self, *args, **kwargs):  # type: ignore[no-untyped-def]
    try:
        imported: Any = "<imported>"
        imported(self._name)
    finally:
        self._lock.release()


def _in_place_of(old: "CodeType", new: "CodeType", objects: "dict[str, Any]") -> "CodeType":
    """``new`` with these objects for its constants, in tracebacks not to be told from ``old``."""
    constants = tuple(
        objects[c[1:-1]] if isinstance(c, str) and c[:1] == "<" and c[1:-1] in objects else c for c in new.co_consts
    )
    # A traceback names the line of the one statement that can raise: the last of the old function, our first.
    line = max(number for _, _, number in old.co_lines() if number is not None)
    return new.replace(
        co_consts=constants,
        co_filename=old.co_filename,
        co_name=old.co_name,
        co_qualname=old.co_qualname,
        co_firstlineno=line - 1,
    )
