"""What the layer cannot redirect ends the run: seen by Python's audit events (PEP 578), before it happens."""

from __future__ import annotations

import errno
import os
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

from .tree import Tree

_exit, _open_file, _write_file = os._exit, os.open, os.write
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATHS = {
    "os.remove": 1, "os.rmdir": 1, "os.mkdir": 1, "os.rename": 2, "os.link": 2, "os.truncate": 1, "os.chmod": 1,
    "os.chown": 1, "os.utime": 1, "os.setxattr": 1, "os.removexattr": 1, "os.chflags": 1,
}  # fmt: skip
"""Events about the file system, and how many of their arguments are paths that change."""
_PROGRAMS = frozenset(("os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn", "subprocess.Popen"))
_HARMLESS = frozenset(("uname", "hostname", "lscpu", "nvidia-smi", "ldconfig", "sysctl", "sw_vers", "which", "ps"))
"""Programs that only tell something; torch, platform and others ask them."""
_KNOWN = frozenset(
    ("torch", "functorch", "numpy", "scipy", "pandas", "sklearn", "PIL", "matplotlib", "kiwisolver", "contourpy")
    + ("yaml", "_yaml", "regex", "markupsafe", "charset_normalizer", "psutil", "triton", "multidict", "yarl", "aiohttp")
    + ("frozenlist", "propcache", "simplejson", "ujson", "orjson", "msgpack", "xxhash", "rpds", "pydantic_core")
    + ("google", "tokenizers", "sentencepiece", "_cffi_backend", "cython_runtime", "numexpr", "bottleneck", "gmpy2")
)
"""Packages with code of their own in C that writes no files by path, or does so through Python's calls."""


class Refusals:
    """Looks at every event of this process."""

    def __init__(self, tree: Tree, out: str) -> None:
        self.tree = tree
        self.out = os.path.realpath(out)
        paths = sysconfig.get_paths()
        self.library = tuple(os.path.realpath(paths[k]) for k in ("stdlib", "platstdlib"))
        self.installed = tuple(os.path.realpath(paths[k]) for k in ("purelib", "platlib"))

    def watch(self) -> None:
        special: dict[str, Callable[[Any], None]] = {
            "open": self._opened,
            "import": self._imported,
            "os.symlink": lambda args: self._path(args[1], "makes a link"),
            "sqlite3.connect": self._database,
            "ctypes.dlopen": self._library,
            "socket.connect": self._connects,
            "socket.sendto": self._connects,
            "socket.sendmsg": self._connects,
            "syslog.syslog": lambda _: self._refuse("writes to the system's log"),
        }

        def hook(event: str, args: Any) -> None:
            found = special.get(event)
            if found is not None:
                found(args)
            elif event in _PATHS:
                for path in args[: _PATHS[event]]:
                    self._path(path, f"calls {event}")
            elif event in _PROGRAMS:
                self._program(event, args)

        self._note_ports()
        sys.addaudithook(hook)

    def _refuse(self, what: str) -> None:
        """End this process at once, and with it the run: whoever started it looks for this file."""
        handle = _open_file(os.path.join(self.out, "uncovered"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        _write_file(handle, f"{what}, which cannot be kept from your files on this system\n".encode(errors="replace"))
        _exit(1)

    def _path(self, path: Any, what: str) -> None:
        if isinstance(path, int):
            path = f"/proc/self/fd/{path}"
        real = os.path.join(self.tree.cwd, os.fsdecode(path))
        if not self.tree.own(real) and not self.tree.own(os.path.realpath(real)):
            self._refuse(f"{what} ({os.path.basename(real)})")

    def _opened(self, args: Any) -> None:
        path, _, flags = args
        if isinstance(path, (str, bytes)) and isinstance(flags, int) and flags & _WRITING:
            real = os.fsdecode(path)
            if not self.tree.own(real) and not self.tree._is_device(real):
                self._path(path, "opens a file for writing past Python's functions")

    def _database(self, args: Any) -> None:
        name = os.fsdecode(args[0])
        if name not in ("", ":memory:") and "mode=memory" not in name and not self.tree.own(name):
            self._refuse(f"opens the database {os.path.basename(name)}")

    def _imported(self, args: Any) -> None:
        name, file = args[0], args[1]
        if not file or not isinstance(file, str) or not file.endswith((".so", ".dylib", ".pyd")):
            return
        real = os.path.realpath(file)
        inside = any(real.startswith(folder + os.sep) for folder in self.installed)
        standard = not inside and any(real.startswith(folder + os.sep) for folder in self.library)
        if not standard and name.partition(".")[0] not in _KNOWN:
            self._refuse(f"loads {name.partition('.')[0]}, code that may write by itself")

    def _library(self, _args: Any) -> None:
        """A library that the user's own code loads may do anything; torch and others load what belongs to them."""
        frame: Any = sys._getframe(2)
        while frame is not None and os.sep + "ctypes" + os.sep in frame.f_code.co_filename:
            frame = frame.f_back
        file = frame.f_code.co_filename if frame is not None else "<"
        if file.startswith("<frozen"):
            return  # ctypes itself is being imported
        real = os.path.realpath(file)
        if not any(real.startswith(folder + os.sep) for folder in self.library + self.installed):
            self._refuse("calls C by ctypes")

    def _program(self, event: str, args: Any) -> None:
        if event == "os.system":
            self._refuse("starts a shell")
        executable, words = os.fsdecode(args[0]), args[1] if len(args) > 1 else ()
        if event == "os.spawn":
            executable, words = os.fsdecode(args[1]), args[2]
        if isinstance(words, (str, bytes)):
            words = [words]
        words = [os.fsdecode(w) for w in words or ()]
        env = args[-1] if event in ("subprocess.Popen", "os.exec", "os.posix_spawn") else None
        if os.path.basename(executable) in _HARMLESS:
            return
        same = os.path.realpath(executable) == os.path.realpath(sys.executable)
        options = [w for w in words[1:] if w.startswith("-") and not w.startswith("--")]
        deaf = any(set("IES") & set(w[1:]) and w[1:2] not in ("W", "X", "c", "m") for w in options[:3])
        if same and not deaf and (env is None or "GRAPHDOC_LAYER" in [os.fsdecode(k) for k in env]):
            return
        self._refuse(f"starts another program ({os.path.basename(executable)})")

    def _note_ports(self) -> None:
        """Note the ports on which the run's own processes listen: they may be connected to, and no others."""
        import socket

        tree = self.tree
        listen = socket.socket.listen

        def noted(self: Any, *args: Any) -> None:
            listen(self, *args)
            name = self.getsockname()
            if isinstance(name, tuple):
                os.close(_open_file(os.path.join(tree.ports, str(name[1])), os.O_WRONLY | os.O_CREAT, 0o600))

        socket.socket.listen = noted  # type: ignore[method-assign]

    def _connects(self, args: Any) -> None:
        address = args[1] if len(args) > 1 else None
        if address is None:
            return  # what is already connected
        if isinstance(address, tuple):
            known = os.path.exists(os.path.join(self.tree.ports, str(address[1]))) if len(address) > 1 else False
        else:
            known = self.tree.own(os.path.realpath(os.fsdecode(address)))
        if not known:
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
