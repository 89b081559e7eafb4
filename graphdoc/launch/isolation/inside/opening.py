"""The calls that open a file: each says what it is opened for, and the tree which file that is."""

from __future__ import annotations

import errno
import functools
import io
import os
from typing import Any

from .tree import Tree, path_meant

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Opening:
    """Takes the original of a call and gives what stands in its place."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def by_number(self, original: Any) -> Any:
        tree = self.tree

        def call(path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> int:
            named = path_meant(path, dir_fd)
            try:
                return int(original(self._opened(named, flags), flags, mode))
            except OSError as e:
                raise tree.shown(e) from None

        return call

    def _opened(self, path: Any, flags: int) -> str:
        tree = self.tree
        follow = not flags & getattr(os, "O_NOFOLLOW", 0)
        place = tree.place(path, follow)
        if not flags & _WRITING:
            return tree.reading(place)
        if tree.exists(place):
            if flags & os.O_CREAT and flags & os.O_EXCL:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        elif not flags & os.O_CREAT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return tree.for_writing(place, replaced=bool(flags & os.O_TRUNC), follow=follow)

    def as_stream(self, original: Any) -> Any:
        tree = self.tree

        def open(  # noqa: A001 (it stands for that very function)
            file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any
        ) -> Any:
            if isinstance(file, int) or kwargs.get("opener") is not None or len(args) > 4:
                return original(file, mode, buffering, *args, **kwargs)
            flags = _flags(mode)
            try:
                stream = original(self._opened(os.fspath(file), flags), mode, buffering, *args, **kwargs)
            except OSError as e:
                raise tree.shown(e) from None
            return stream

        return functools.update_wrapper(open, original)

    def as_database(self, original: Any) -> Any:
        tree = self.tree

        def connect(database: Any, *args: Any, **kwargs: Any) -> Any:
            name = os.fsdecode(database)
            if name in ("", ":memory:") or name.startswith("file:"):
                return original(database, *args, **kwargs)
            for end in ("-wal", "-shm", "-journal"):
                if tree.exists(tree.place(name + end)):
                    tree.for_writing(name + end)
            return original(tree.for_writing(name), *args, **kwargs)

        return connect

    def file_class(self) -> type:
        """``io.FileIO``, which some libraries call themselves."""
        opened = self._opened

        class FileIO(io.FileIO):
            def __init__(self, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None) -> None:
                if not isinstance(file, int) and opener is None:
                    file = opened(os.fspath(file), _flags(mode))
                super().__init__(file, mode, closefd, opener)

        return FileIO


def _flags(mode: str) -> int:
    """The flags of ``os.open`` that a mode of ``open`` comes to."""
    plus = os.O_RDWR if "+" in mode else os.O_WRONLY
    if "w" in mode:
        return plus | os.O_CREAT | os.O_TRUNC
    if "a" in mode:
        return plus | os.O_CREAT | os.O_APPEND
    if "x" in mode:
        return plus | os.O_CREAT | os.O_EXCL
    return os.O_RDWR if "+" in mode else os.O_RDONLY
