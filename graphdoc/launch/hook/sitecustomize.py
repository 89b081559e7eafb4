"""The start-up hook: Python imports it as ``sitecustomize`` in the observed program and in the processes it starts.

It gets out of the way first (its folder leaves ``sys.path``, its variables leave ``os.environ``), arranges that the
capture is installed once torch has been executed, and then lets the user's own ``sitecustomize`` take its place.
Nothing is imported here that Python has not already imported; nothing is printed; nothing is raised. Only where runs
are to come out of one interpreter (see ``graphdoc/launch/isolation/server.py``) it waits for them first.
"""

import os
import sys

TYPE_CHECKING = False  # importing typing would be the first trace that we leave
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

waiting: "Any" = None
children: "Any" = None
shared = False
"""Whether this process is a run that came out of an interpreter which has imported torch for several."""
_HERE = os.path.dirname(__file__)
_IMPORT_OF_TORCH = 0.3
"""Seconds of computing that an import of torch takes at least, on any machine of today."""
_OURS = (
    "GRAPHDOC_OUT",
    "GRAPHDOC_MODE",
    "GRAPHDOC_PATCHES",
    "GRAPHDOC_KIND",
    "GRAPHDOC_PYTHONPATH",
    "GRAPHDOC_LAYER",
    "GRAPHDOC_KEEPER",
    "GRAPHDOC_HOST",
)


def _step_aside() -> None:
    """Take this folder out of the search path, as if it had never been there; what lies beside us is got before."""
    global children, waiting
    try:
        import _graphdoc_children as children  # type: ignore[import-not-found]
        import _graphdoc_waiting as waiting  # type: ignore[import-not-found]
    finally:
        sys.modules.pop("_graphdoc_children", None)
        sys.modules.pop("_graphdoc_waiting", None)
        sys.path[:] = [entry for entry in sys.path if entry != _HERE]
        sys.path_importer_cache.pop(_HERE, None)


def _hide(settings: "dict[str, str | None]") -> None:
    """Show the program the environment that it was given.

    Only Python's view changes: the C environment keeps the variables, and a process started from it (by
    multiprocessing's spawn method, for one) is observed as well. See ``_launch_plainly`` for those that are no Python.
    """
    data, key = os.environ._data, os.environ.encodekey  # type: ignore[attr-defined]
    for name in _OURS:
        data.pop(key(name), None)
    original = settings["GRAPHDOC_PYTHONPATH"]
    if original is None:
        data.pop(key("PYTHONPATH"), None)
    else:
        data[key("PYTHONPATH")] = os.environ.encodevalue(original)


def _launch_plainly(settings: "dict[str, str | None]", hooked: str) -> None:
    """Let ``subprocess`` start what is no Python without our variables."""
    module: Any = sys.modules.get("subprocess")
    original = getattr(module, "_fork_exec", None)
    if original is not None and type(original) is not children.Launching:
        ours = {name: value for name, value in settings.items() if value is not None}
        module._fork_exec = children.Launching(original, ours, hooked, settings["GRAPHDOC_PYTHONPATH"])


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


def _process() -> str:
    """What this process calls its files (see graphdoc/capture/process/marks.py)."""
    starter = os.environ.get("GRAPHDOC_HOST")
    host = os.uname().nodename if starter is not None and hasattr(os, "uname") else starter
    return str(os.getpid()) if host == starter else f"{os.getpid()}@{host}"


def _leave(out: str, state: str) -> None:
    """Tell the parent how far this process has come, by the name of an empty file: it needs no room on a full disk.

    The states are those of graphdoc/launch/keep.py.
    """
    try:
        os.close(os.open(os.path.join(out, f"process-{_process()}.{state}"), os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        pass


def _trouble(out: str, error: Exception) -> None:
    """Leave one line for the parent; there is nobody to tell in this process."""
    try:
        line = " ".join(f"{type(error).__name__}: {error}".split())
        with open(os.path.join(out, f"trouble-{_process()}.txt"), "a", encoding="utf-8", errors="replace") as f:
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
    missing: list[Any] = []
    try:
        missing = _standard_finders()
        sys.meta_path.extend(missing)
        _capture().install(out, mode, told_of_end=True)
    except Exception as e:
        _leave(out, "unobserved")
        _trouble(out, e)
    finally:
        for finder in missing:
            sys.meta_path.remove(finder)


def _capture() -> "Any":
    """The capture, from beside this file."""
    package = os.path.dirname(os.path.dirname(_HERE))
    loaded = sys.modules.get("graphdoc")
    if loaded is None:
        _load("graphdoc", os.path.join(package, "__init__.py"), [package])
    elif os.path.realpath(os.path.dirname(loaded.__file__ or "")) != os.path.realpath(package):
        raise RuntimeError("the program has another package called graphdoc, so this process was not observed")
    from graphdoc import capture

    return capture


def _again() -> None:
    """``importlib.reload(torch)``."""
    capture: Any = sys.modules.get("graphdoc.capture")
    if capture is not None:
        capture.reloaded()


def _at_exit(out: str) -> None:
    capture: Any = sys.modules.get("graphdoc.capture")
    if capture is not None:
        capture.ended()
    elif sum(os.times()[2:4]) < _IMPORT_OF_TORCH:
        _leave(out, "alone")
    if shared:
        import gc

        gc.freeze()  # to look through all of torch once more takes longer than many a trial, whose end nobody sees


def _be_last(out: str) -> None:
    """Be told of the end of the process after everything that the program registers for it: registered first."""
    known = "atexit" in sys.modules
    import atexit

    atexit.register(_at_exit, out)
    if not known:
        del sys.modules["atexit"]  # its list belongs to the interpreter, not to the module object


def _standard_finders() -> "list[Any]":
    """Those that Python has in ``sys.meta_path`` and the program has taken away."""
    external: Any = sys.modules["_frozen_importlib_external"]
    importlib: Any = sys.modules["_frozen_importlib"]
    standard = (importlib.BuiltinImporter, importlib.FrozenImporter, external.PathFinder)
    return [finder for finder in standard if finder not in sys.meta_path]


def _observe(out: str, mode: str) -> None:
    if _serves_forks() and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _install(out, mode))
        _leave(out, "ended")  # nothing of the program's runs in this process itself
    else:
        _install(out, mode)


def _cover(keeper: str, scratch: "str | None", out: str) -> None:
    """Keep this process from others and, with ``scratch``, from the user's files; one that cannot be does not run."""
    try:
        folder = os.path.join(os.path.dirname(_HERE), "isolation", "inside")
        inside: Any = _load("_graphdoc_inside", os.path.join(folder, "__init__.py"), [folder])
        inside.install(int(keeper), scratch, out)
    except BaseException as e:
        _trouble(out, RuntimeError(f"{type(e).__name__}: {e}"))
        os._exit(1)


def _serve() -> None:
    """Import torch and go on in forks of this process only, each of them one run that is kept apart."""
    global shared
    try:
        known = set(sys.modules)
        folder = os.path.join(os.path.dirname(_HERE), "isolation")
        names = ("_graphdoc_keeper", "_graphdoc_server")
        keeper, server = (_load(name, os.path.join(folder, f"{name[10:]}.py")) for name in names)
        server.serve(keeper, known, _capture)
        for name in names:
            del sys.modules[name]
        shared = True
    except BaseException:
        os._exit(1)  # what follows is the program, and nothing keeps it apart in this process


def _start() -> None:
    if "GRAPHDOC_SERVE" in os.environ:
        _serve()
    settings = {name: os.environ.get(name) for name in _OURS}
    out, mode = settings["GRAPHDOC_OUT"], settings["GRAPHDOC_MODE"] or "observe"
    others = {}
    try:
        if settings["GRAPHDOC_KIND"] != "command" and not _left_alone():  # a launcher's workers are the program
            hooked = os.environ.get("PYTHONPATH", "")
            _hide(settings)
            others["subprocess"] = lambda: _launch_plainly(settings, hooked)
            others["subprocess"]()
        if not out:
            return
        if settings["GRAPHDOC_KEEPER"]:
            _cover(settings["GRAPHDOC_KEEPER"], settings["GRAPHDOC_LAYER"], out)
        if os.environ.get("GRAPHDOC_DISABLE", "0") not in ("", "0"):
            _leave(out, "disabled")
            return
        _leave(out, "started")
        if _left_alone():
            _leave(out, "alone")
            return
        if settings["GRAPHDOC_PATCHES"]:
            patched = _load("_graphdoc_patched", os.path.join(os.path.dirname(_HERE), "patched.py"))
            patched.install(settings["GRAPHDOC_PATCHES"])
        _be_last(out)
        if waiting.is_executed(sys.modules.get("torch")):
            _observe(out, mode)
        else:
            waiting.Watch(lambda: _observe(out, mode), lambda: _leave(out, "loading"), _again, others)
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
