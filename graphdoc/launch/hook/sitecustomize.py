"""The start-up hook: Python imports it as ``sitecustomize`` in the observed program and in the processes it starts.

It gets out of the way first (its folder leaves ``sys.path``, its variables leave ``os.environ``), arranges that the
capture is installed once torch has been imported, and then lets the user's own ``sitecustomize`` take its place.
Nothing is imported here that Python has not already imported; nothing is printed; nothing is raised.
"""

import os
import sys

TYPE_CHECKING = False  # importing typing would be the first trace that we leave
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from typing import Any

_HERE = os.path.dirname(__file__)
_OURS = ("GRAPHDOC_OUT", "GRAPHDOC_MODE", "GRAPHDOC_PATCHES", "GRAPHDOC_KIND", "GRAPHDOC_PYTHONPATH", "GRAPHDOC_LAYER")


def _step_aside() -> None:
    """Take this folder out of the search path, as if it had never been there."""
    sys.path[:] = [entry for entry in sys.path if entry != _HERE]
    sys.path_importer_cache.pop(_HERE, None)


def _hide(settings: "dict[str, str | None]") -> None:
    """Show the program the environment that it was given.

    Only Python's view changes: the C environment keeps the variables, and a process started from it (by
    multiprocessing's spawn method, for one) is observed as well.
    """
    data, key = os.environ._data, os.environ.encodekey  # type: ignore[attr-defined]
    for name in _OURS:
        data.pop(key(name), None)
    original = settings["GRAPHDOC_PYTHONPATH"]
    if original is None:
        data.pop(key("PYTHONPATH"), None)
    else:
        data[key("PYTHONPATH")] = os.environ.encodevalue(original)


def _left_alone() -> bool:
    """True in helper processes that never run the user's training code: trackers, compile workers, launchers."""
    after = len(sys.argv) - 1
    options = sys.orig_argv[1 : len(sys.orig_argv) - after]
    last = options[-1].replace("\\", "/") if options else ""
    if sys.argv[:1] == ["-c"]:
        return "multiprocessing.resource_tracker" in last or "multiprocessing.semaphore_tracker" in last
    if sys.argv[:1] == ["-m"]:
        module = last[2:] if last.startswith("-m") else last
        return module in ("pip", "ensurepip", "venv", "torch.distributed.run", "torch.distributed.launch") or (
            module.startswith("torch._inductor.compile_worker")
        )
    return "torch/_inductor/compile_worker" in last or os.path.basename(last) in ("torchrun", "pip", "pip3")


def _serves_forks() -> bool:
    """True in multiprocessing's fork server, which only makes the processes that do the work."""
    return sys.argv[:1] == ["-c"] and any("multiprocessing.forkserver" in a for a in sys.orig_argv)


def _trouble(out: str, error: Exception) -> None:
    """Leave one line for the parent; there is nobody to tell in this process."""
    try:
        line = " ".join(f"{type(error).__name__}: {error}".split())
        with open(os.path.join(out, f"trouble-{os.getpid()}.txt"), "a", encoding="utf-8", errors="replace") as f:
            f.write(line + "\n")
    except Exception:
        pass


def _load(name: str, path: str, folders: "list[str] | None" = None) -> "ModuleType":
    """Import a file by its place: the user's interpreter need not have graphdoc on its path."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, path, submodule_search_locations=folders)
    module = module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _install(out: str, mode: str) -> None:
    """Load the capture from beside this file and start it."""
    try:
        package = os.path.dirname(os.path.dirname(_HERE))
        loaded = sys.modules.get("graphdoc")
        if loaded is None:
            _load("graphdoc", os.path.join(package, "__init__.py"), [package])
        elif os.path.realpath(os.path.dirname(loaded.__file__ or "")) != os.path.realpath(package):
            raise RuntimeError("the program has another package called graphdoc, so this process was not observed")
        from graphdoc import capture

        install = getattr(capture, "install", None)
        if install is not None:
            install(out, mode)
    except Exception as e:
        _trouble(out, e)


def _observe(out: str, mode: str) -> None:
    if _serves_forks() and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _install(out, mode))
    else:
        _install(out, mode)


class _AfterTorch:
    """A finder that waits for ``import torch`` and calls ``then`` when that import has finished."""

    def __init__(self, out: str, then: "Callable[[], None]") -> None:
        self.out = out
        self.then = then

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "ModuleSpec | None":
        if name != "torch" or self not in sys.meta_path:
            return None
        place = sys.meta_path.index(self)
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                break
        else:
            spec = None
        loader: Any = spec.loader if spec is not None else None
        if not hasattr(loader, "exec_module"):
            # No torch here (or a bare namespace folder of that name): it may still come from elsewhere later.
            sys.meta_path.insert(place, self)
            return spec

        def exec_module(module: "ModuleType") -> None:
            # The genuine loader stays in place; only this one call of this one instance is seen.
            del loader.exec_module
            try:
                loader.exec_module(module)
            except BaseException:
                sys.meta_path.insert(0, self)
                raise
            self.then()

        exec_module.__code__ = _inside_importlib(exec_module.__code__)
        try:
            loader.exec_module = exec_module
        except Exception as e:
            _trouble(self.out, e)
        return spec

    # Some libraries still ask every finder for this.
    def invalidate_caches(self) -> None:
        pass


def _inside_importlib(code: "CodeType") -> "CodeType":
    """The same code as a part of importlib: Python leaves those frames out of tracebacks and warnings."""
    return code.replace(co_filename="<frozen importlib._bootstrap_external>")


_AfterTorch.find_spec.__code__ = _inside_importlib(_AfterTorch.find_spec.__code__)


def _cover(scratch: str, out: str) -> None:
    """Keep what this process writes from the user's files; a process that cannot be kept from them does not run."""
    try:
        folder = os.path.join(os.path.dirname(_HERE), "isolation", "inside")
        inside: Any = _load("_graphdoc_inside", os.path.join(folder, "__init__.py"), [folder])
        inside.install(scratch, out)
    except BaseException as e:
        _trouble(out, RuntimeError(f"{type(e).__name__}: {e}"))
        os._exit(1)


def _start() -> None:
    settings = {name: os.environ.get(name) for name in _OURS}
    out, mode = settings["GRAPHDOC_OUT"], settings["GRAPHDOC_MODE"] or "observe"
    try:
        if settings["GRAPHDOC_KIND"] != "command":
            _hide(settings)
        if settings["GRAPHDOC_LAYER"] and out:
            _cover(settings["GRAPHDOC_LAYER"], out)
        if not out or os.environ.get("GRAPHDOC_DISABLE", "0") not in ("", "0") or _left_alone():
            return
        if settings["GRAPHDOC_PATCHES"]:
            patched = _load("_graphdoc_patched", os.path.join(os.path.dirname(_HERE), "patched.py"))
            patched.install(settings["GRAPHDOC_PATCHES"])
        if "torch" in sys.modules:
            _observe(out, mode)
        else:
            sys.meta_path.insert(0, _AfterTorch(out, lambda: _observe(out, mode)))
    except Exception as e:
        if out:
            _trouble(out, e)


try:
    _step_aside()
    _start()
except Exception:
    pass
sys.modules.pop("sitecustomize", None)
# The user's own, if there is one. If there is none, this raises exactly what Python expects to be told then.
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401
