"""What ``os.scandir`` gives for a folder that lies in two trees."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Any


class Entry:
    """One name in a folder, as ``os.DirEntry`` shows it."""

    def __init__(self, folder: Any, name: str) -> None:
        self.name: Any = os.fsencode(name) if isinstance(folder, bytes) else name
        self.path: Any = os.path.join(folder, self.name)

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        return os.lstat(self.path).st_ino

    def _is(self, kind: Callable[[int], bool], follow: bool) -> bool:
        try:
            return kind(self.stat(follow_symlinks=follow).st_mode)
        except FileNotFoundError:
            return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_ISDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_ISREG, follow_symlinks)

    def is_symlink(self) -> bool:
        return self._is(stat.S_ISLNK, False)

    def is_junction(self) -> bool:
        return False


class Entries:
    """What ``os.scandir`` gives."""

    def __init__(self, folder: Any, names: list[str]) -> None:
        self.entries: Iterator[Entry] = iter([Entry(folder, name) for name in names])

    def __iter__(self) -> Entries:
        return self

    def __next__(self) -> Entry:
        return next(self.entries)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.entries = iter(())
