"""Programs that an observed one starts by ``subprocess``: what is no Python gets the environment that it would have.

A Python gets our variables, by which it is observed as well; they stand in the C environment, which nothing in Python
shows. They are taken out of it for as long as another program is being started. Standard library only, and of that
only what Python has already imported.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SIGNS = bytes(32 if chr(n) in "\"'`$(){};&|<>=\n\t" else n for n in range(256))
"""What parts the words of a shell's command, as a table for ``bytes.translate``."""
_MOST_WORDS = 100
_MAKES = frozenset([b"make", b"gmake"])
_RECIPES = (b"GNUmakefile", b"makefile", b"Makefile")
_LONGEST_RECIPE = 1_000_000


class Launching:
    """``fork_exec`` of ``subprocess``; ``ours`` are the variables, and ``hooked`` is PYTHONPATH with the hook in it, of
    which the program sees ``path``."""

    def __init__(self, original: "Any", ours: "dict[str, str]", hooked: str, path: "str | None") -> None:
        self.original = original
        self.ours = ours
        self.hooked = hooked
        self.path = path

    def __call__(self, *args: "Any") -> "Any":
        if args[5] is not None or may_start_python(args[0], args[1], args[4]):
            return self.original(*args)
        changed = os.environ.get("PYTHONPATH") != self.path  # by the program, for the C environment as well
        for name in self.ours:
            os.unsetenv(name)
        if not changed:
            os.unsetenv("PYTHONPATH")
        if not changed and self.path is not None:
            os.putenv("PYTHONPATH", self.path)
        try:
            return self.original(*args)
        finally:
            for name, value in self.ours.items():
                os.putenv(name, value)
            if not changed:
                os.putenv("PYTHONPATH", self.hooked)


def may_start_python(words: "Any", executables: "Any", cwd: "Any" = None) -> bool:
    """Whether this command line is a Python's, or may start one: it names one, a file of Python's, a script, or make
    where the makefile does."""
    try:
        folder = os.fsencode(cwd or ".")
        named = b" ".join(os.fsencode(word) for word in words).translate(_SIGNS).split()[:_MOST_WORDS]
        places = [os.path.join(folder, os.fsencode(file)) for file in executables]
        found = [file for file in places if os.path.exists(file)][:1]
        if any(_is_python(word, folder) for word in (*found, *named)):
            return True
        makes = any(os.path.basename(word) in _MAKES for word in named)
        return makes and any(_names_python(os.path.join(folder, word)) for word in (b"", *named))
    except (OSError, TypeError, ValueError):
        return True  # fork_exec itself shall say what it thinks of it


def _is_python(word: bytes, folder: bytes) -> bool:
    name = os.path.basename(word)
    if name.startswith((b"python", b"pypy")) or name.endswith((b".py", b".sh")):
        return True
    return any(_is_script(file) for file in _files(word, folder))


def _names_python(place: bytes) -> bool:
    """Whether a makefile, or that of a folder, speaks of a Python: what its recipes start."""
    for file in (place, *(os.path.join(place, name) for name in _RECIPES)):
        if os.path.isfile(file):
            with open(file, "rb") as stream:
                if b"py" in stream.read(_LONGEST_RECIPE).lower():
                    return True
    return False


def _files(word: bytes, cwd: bytes) -> "Iterator[bytes]":
    if b"/" in word:
        yield os.path.join(cwd, word)
        return
    for folder in os.fsencode(os.environ.get("PATH", os.defpath)).split(b":"):
        file = os.path.join(folder, word)
        if os.access(file, os.X_OK):
            yield file
            return


def _is_script(file: bytes) -> bool:
    """Whether it is a text that names its interpreter: Python's, or a shell that may start anything."""
    try:
        if not os.path.isfile(file):
            return False
        with open(file, "rb") as stream:
            return stream.read(2) == b"#!"
    except OSError:
        return False
