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
from .opening import Opening
from .tree import Tree, path_meant


def cover_calls(tree: Tree) -> None:
    """Exchange them, for the rest of this process's life."""
    calls, opening = _Calls(tree), Opening(tree)
    for name in ("stat", "access", "readlink", "statvfs", "pathconf", "getxattr", "listxattr"):
        _exchange(os, name, calls.reader)
    _exchange(os, "lstat", functools.partial(calls.reader, follow=False))
    for name in ("truncate", "chmod", "chown", "utime"):
        _exchange(os, name, calls.changer)
    _exchange(os, "lchown", functools.partial(calls.changer, follow=False))
    for name in ("mkdir", "mkfifo", "mknod"):
        _exchange(os, name, calls.maker)
    for name in ("listdir", "scandir", "rename", "link", "symlink", "rmdir", "chdir"):
        _exchange(os, name, getattr(calls, name))
    _exchange(os, "open", opening.by_number)
    os.replace = os.rename
    _exchange(os, "unlink", calls.unlink)
    os.remove = os.unlink
    os.getcwd = lambda: tree.cwd
    os.getcwdb = lambda: os.fsencode(tree.cwd)
    # The safe way of rmtree works on folders by their handles, which belong to one tree only.
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    builtins.open = io.open = opening.as_stream(io.open)
    io.FileIO = opening.file_class()  # type: ignore[misc, assignment]
    try:
        import sqlite3
    except ImportError:
        return
    sqlite3.connect = sqlite3.dbapi2.connect = opening.as_database(sqlite3.connect)


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

    def reader(self, original: Any, follow: bool = True) -> Any:
        tree = self.tree
        last = follow and original.__name__ != "readlink"

        def call(path: Any = ".", *args: Any, dir_fd: Any = None, **kwargs: Any) -> Any:
            if isinstance(path, int):
                return original(path, *args, **kwargs)
            place = tree.place(path_meant(path, dir_fd), last and kwargs.get("follow_symlinks", True))
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
            named = path_meant(path, dir_fd)
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
            place = tree.place(path_meant(path, dir_fd), follow=False)
            if tree.exists(place):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            try:
                return original(tree.for_writing(place, follow=False), *args, **kwargs)
            except OSError as e:
                raise tree.shown(e) from None

        return call

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
            place = tree.place(path_meant(path, dir_fd), follow=False)
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
            source = tree.place(path_meant(src, src_dir_fd), follow=False)
            target = tree.place(path_meant(dst, dst_dir_fd), follow=False)
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
            source = tree.for_writing(path_meant(src, src_dir_fd), follow=False)
            target = tree.place(path_meant(dst, dst_dir_fd), follow=False)
            if tree.exists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), src, None, dst)
            original(source, tree.for_writing(target, follow=False), **kwargs)

        return call

    def symlink(self, original: Any) -> Any:
        tree = self.tree

        def call(src: Any, dst: Any, *args: Any, dir_fd: Any = None, **kwargs: Any) -> None:
            target = tree.place(path_meant(dst, dir_fd), follow=False)
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
