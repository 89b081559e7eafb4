"""Exchanges Python's file calls for ones that know the two trees: ``open``, ``os``, ``sqlite3`` and what rests on them.

``shutil``, ``pathlib``, ``glob``, ``tempfile`` and numpy come to these in the end.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import shutil
import stat
from collections.abc import Callable
from typing import Any

from .entries import Entries
from .tree import Tree

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def cover_calls(tree: Tree) -> None:
    """Exchange them, for the rest of this process's life."""
    calls = _Calls(tree)
    for name in ("stat", "access", "readlink", "statvfs", "pathconf", "getxattr", "listxattr"):
        _exchange(os, name, calls.reader)
    _exchange(os, "lstat", functools.partial(calls.reader, follow=False))
    for name in ("truncate", "chmod", "chown", "utime"):
        _exchange(os, name, calls.changer)
    _exchange(os, "lchown", functools.partial(calls.changer, follow=False))
    for name in ("mkdir", "mkfifo", "mknod"):
        _exchange(os, name, calls.maker)
    for name in ("open", "listdir", "scandir", "rename", "link", "symlink", "rmdir", "chdir"):
        _exchange(os, name, getattr(calls, name))
    os.replace = os.rename
    _exchange(os, "unlink", calls.unlink)
    os.remove = os.unlink
    os.getcwd = lambda: tree.cwd
    os.getcwdb = lambda: os.fsencode(tree.cwd)
    # The safe way of rmtree works on folders by their handles, which belong to one tree only.
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    builtins.open = io.open = calls.opener(io.open)
    io.FileIO = _file_class(tree)  # type: ignore[misc, assignment]
    try:
        import sqlite3
    except ImportError:
        return
    sqlite3.connect = sqlite3.dbapi2.connect = calls.connector(sqlite3.connect)


def _exchange(module: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = getattr(module, name, None)
    if original is None:
        return
    made = make(original)
    functools.update_wrapper(made, original)
    # Libraries ask these sets what a function can do (os.supports_dir_fd and its like).
    for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if original in known:
            known.add(made)
    setattr(module, name, made)


class _Calls:
    """The calls. Each takes the original and gives what stands in its place; numbers of open files go through."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def _named(self, path: Any, dir_fd: int | None = None) -> Any:
        """The path as the program means it, where it is given beside an open folder."""
        text = os.fspath(path)
        if dir_fd is None or os.path.isabs(text):
            return text
        real = os.path.realpath(f"/proc/self/fd/{dir_fd}")
        return os.path.join(real, os.fsdecode(text))

    def reader(self, original: Any, follow: bool = True) -> Any:
        tree = self.tree
        last = follow and original.__name__ != "readlink"

        def call(path: Any = ".", *args: Any, dir_fd: Any = None, **kwargs: Any) -> Any:
            if isinstance(path, int):
                return original(path, *args, **kwargs)
            place = tree.place(self._named(path, dir_fd), last and kwargs.get("follow_symlinks", True))
            try:
                result = original(tree.reading(place), *args, **kwargs)
            except OSError as e:
                e.filename = path
                raise e from None
            return os.fsencode(result) if isinstance(result, str) and isinstance(path, bytes) else result

        return call

    def changer(self, original: Any, follow: bool = True) -> Any:
        tree = self.tree

        def call(path: Any, *args: Any, dir_fd: Any = None, **kwargs: Any) -> Any:
            if isinstance(path, int):
                return original(path, *args, **kwargs)
            named = self._named(path, dir_fd)
            last = follow and kwargs.get("follow_symlinks", True)
            if not tree.exists(tree.place(named, last)):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            try:
                return original(tree.for_writing(named, follow=last), *args, **kwargs)
            except OSError as e:
                raise tree.shown(e) from None

        return call

    def maker(self, original: Any) -> Any:
        tree = self.tree

        def call(path: Any, *args: Any, dir_fd: Any = None, **kwargs: Any) -> Any:
            place = tree.place(self._named(path, dir_fd), follow=False)
            if tree.exists(place):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            try:
                return original(tree.for_writing(place, follow=False), *args, **kwargs)
            except OSError as e:
                raise tree.shown(e) from None

        return call

    def open(self, original: Any) -> Any:
        tree = self.tree

        def call(path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> int:
            named = self._named(path, dir_fd)
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

    def opener(self, original: Any) -> Any:
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

    def connector(self, original: Any) -> Any:
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

    def listdir(self, original: Any) -> Any:
        tree = self.tree

        def call(path: Any = ".") -> Any:
            if isinstance(path, int):
                return original(path)
            try:
                names = tree.names(tree.place(path if path is not None else "."))
            except OSError as e:
                e.filename = path
                raise e from None
            return [os.fsencode(n) for n in names] if isinstance(path, bytes) else names

        return call

    def scandir(self, original: Any) -> Any:
        tree = self.tree

        def call(path: Any = ".") -> Any:
            if isinstance(path, int):
                return original(path)
            given = "." if path is None else os.fspath(path)
            folder = tree.place(given)
            if tree.untouched(folder):
                return original(tree.reading(folder)) if folder == given else Entries(given, tree.names(folder))
            try:
                return Entries(given, tree.names(folder))
            except OSError as e:
                e.filename = path
                raise e from None

        return call

    def unlink(self, original: Any) -> Any:
        return self._remover(original, folders=False)

    def rmdir(self, original: Any) -> Any:
        return self._remover(original, folders=True)

    def _remover(self, original: Any, folders: bool) -> Any:
        tree = self.tree

        def call(path: Any, *, dir_fd: Any = None) -> None:
            place = tree.place(self._named(path, dir_fd), follow=False)
            real = tree.reading(place)
            if tree.own(place):
                original(place)
                return
            is_folder = stat.S_ISDIR(_about(real, path).st_mode)
            number = 0
            if is_folder != folders:
                number = errno.ENOTDIR if folders else errno.EISDIR
            elif folders and tree.names(place):
                number = errno.ENOTEMPTY
            elif not os.access(os.path.dirname(place), os.W_OK):
                number = errno.EACCES
            if number:
                raise OSError(number, os.strerror(number), path)
            tree.hide(place)
            if real != place:
                original(real)

        return call

    def rename(self, original: Any) -> Any:
        tree = self.tree

        def call(src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None) -> None:
            source = tree.place(self._named(src, src_dir_fd), follow=False)
            target = tree.place(self._named(dst, dst_dir_fd), follow=False)
            _about(tree.reading(source), src)
            try:
                if not tree.own(source):
                    tree.copy_all(source)
                real = tree.for_writing(target, replaced=True, follow=False)
                original(tree.reading(source), real)
            except OSError as e:
                raise tree.shown(e) from None
            if not tree.own(source):
                tree.hide(source)

        return call

    def link(self, original: Any) -> Any:
        tree = self.tree

        def call(src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None, **kwargs: Any) -> None:
            source = tree.for_writing(self._named(src, src_dir_fd), follow=False)
            target = tree.place(self._named(dst, dst_dir_fd), follow=False)
            if tree.exists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), src, None, dst)
            original(source, tree.for_writing(target, follow=False), **kwargs)

        return call

    def symlink(self, original: Any) -> Any:
        tree = self.tree

        def call(src: Any, dst: Any, *args: Any, dir_fd: Any = None, **kwargs: Any) -> None:
            target = tree.place(self._named(dst, dir_fd), follow=False)
            if tree.exists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), src, None, dst)
            original(src, tree.for_writing(target, follow=False), *args, **kwargs)

        return call

    def chdir(self, original: Any) -> Any:
        tree = self.tree

        def call(path: Any) -> None:
            place = os.path.realpath(f"/proc/self/fd/{path}") if isinstance(path, int) else tree.place(path)
            try:
                original(tree.reading(place))
            except OSError as e:
                e.filename = path
                raise e from None
            tree.cwd = tree.place(place)

        return call


def _about(real: str, path: Any) -> os.stat_result:
    try:
        return os.lstat(real)
    except OSError as e:
        e.filename = path
        raise e from None


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


def _file_class(tree: Tree) -> type:
    """``io.FileIO``, which some libraries call themselves."""
    calls = _Calls(tree)

    class FileIO(io.FileIO):
        def __init__(self, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None) -> None:
            if not isinstance(file, int) and opener is None:
                file = calls._opened(os.fspath(file), _flags(mode))
            super().__init__(file, mode, closefd, opener)

    return FileIO
