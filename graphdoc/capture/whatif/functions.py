"""The program's own Functions, and modules with a ``backward`` that autograd never calls, against their forward."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from itertools import islice
from types import CodeType
from typing import TYPE_CHECKING, Any

from torch.autograd import Function
from torch.utils._python_dispatch import TorchDispatchMode

from graphdoc.capture.graph import functions
from graphdoc.capture.graph.roots import tensor_roots
from graphdoc.capture.graph.walk import DEEP, nodes_behind
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import is_user_file, shown_file
from graphdoc.capture.places.frames import frames_of
from graphdoc.capture.second_run.births import home_of, tensors_in, writes_over, written_by
from graphdoc.capture.whatif.moves import size_of
from graphdoc.capture.whatif.window import ForkWatch

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit

_Call = Callable[[list[Any]], list[Any]]
STEPS = {"float64": (1e-5, 1e-6), "float32": (1e-2, 3e-3)}
CLOSE = 0.1
"""A derivative and what a backward gives may lie so far apart."""
MOST = 20
"""Functions that are looked at, each once."""
FAR = 1.0
RESTS = 0.9
"""So many of the numbers that an input decides stay what they are by a small step of it, where it is rounded or
compared."""


class _OfClasses(ForkWatch):
    """A watch that tells of classes with a backward of their own."""

    def _described(self, cls: type, at: Any, code: CodeType | None = None) -> dict[str, Any]:
        """A class, and where it was called; ``code`` is its backward's, for a Function that which is found."""
        code = code or functions.backward_code(cls)
        assert code is not None
        file = shown_file(code.co_filename, self.cwd)
        return functions.described(cls, code, None, file, frames_of(at, self.cwd) if at is not None else [])


class FunctionCheck(_OfClasses):
    """A watch of one fork. A Function whose forward gives back what it is given, or moves in steps, has another
    gradient on purpose (a gradient that is reversed, scaled or passed straight through), and is never told; so are
    single elements at which it does, and inputs that get None or zeros: what an author says of them. A package's own
    (the surrogate gradient of a spiking neuron, say) are not compared; that one has run is told. So are the user's that
    are given what has a graph and are in the graph of no loss."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._met: dict[Any, tuple[list[Any], list[bool], Any]] = {}
        self._taken: dict[Any, set[int]] = {}
        """Which outputs of a Function a loss takes: for the others nobody asks what its backward gives."""
        self._passed: set[Any] = set()
        """Functions that the graph of a loss goes through."""
        self._seen: set[Any] = set()
        self._packaged = False
        """Whether a Function of a package has run."""
        self._busy = False
        self._wrong: list[dict[str, Any]] = []
        self._deaf: dict[Any, dict[str, Any]] = {}
        """Functions whose backward gives the same whatever gradient it is given."""
        self._scaled: set[Any] = set()
        """Functions that a backward call has given another gradient than ones."""
        self._derived: set[Any] = set()
        """Functions whose derivative goes into a loss."""

    def __enter__(self) -> FunctionCheck:
        every: list[Any] = functions.subclasses(Function)
        for cls in every:
            if isinstance(cls.__dict__.get("forward"), staticmethod) and not cls.__module__.startswith("torch."):
                cls.forward = staticmethod(self._watching(cls, cls.forward))
        return self

    def _watching(self, cls: Any, forward: Any) -> Any:
        """The forward, which keeps what it is given first: ``Cube.apply`` may be known by a name of its own by now."""
        own = cls.setup_context is Function.setup_context  # then a context comes first
        users = functions.backward_code(cls) is not None

        def call(*given: Any) -> Any:
            self._packaged |= not users
            args = given[1:] if own else given
            if users and cls not in self._met and not self._busy and len(self._met) < MOST:
                copies = [a.detach().clone() if isinstance(a, self._torch.Tensor) else a for a in args]
                flags = [isinstance(a, self._torch.Tensor) and a.requires_grad for a in args]
                self._met[cls] = copies, flags, stacks.stack_here(2)
            return forward(*given)

        return call

    def began(self, outputs: Any) -> None:
        """A backward call begins: the forward is over, and its Functions are called once more, by themselves."""
        if self._busy:
            return
        self._busy = True
        for count, (root, following) in enumerate(nodes_behind(tensor_roots(outputs)) if self._met else ()):
            if count >= DEEP:
                self._passed.update(self._met)  # any of them may be further down
                break
            cls = getattr(type(root), "_forward_cls", None)
            self._passed.add(cls)
            if cls in self._met:
                root.register_prehook(partial(self._receives, cls))
            for node, number in following:
                self._taken.setdefault(getattr(type(node), "_forward_cls", None), set()).add(number)
        for cls, (args, flags, at) in list(self._met.items()):
            if cls not in self._seen:
                self._seen.add(cls)
                try:
                    self._look(cls, args, flags, at)
                except Exception:
                    continue  # it cannot be called by itself
        self._busy = False

    def derives(self, outputs: Any) -> None:
        below = (getattr(type(n), "_forward_cls", None) for n, _ in islice(nodes_behind(tensor_roots(outputs)), DEEP))
        self._derived |= self._met.keys() & set(below)
        self._passed |= self._derived

    def _receives(self, cls: Any, gradients: Any) -> None:
        if any(g is not None and bool((g != 1).any()) for g in gradients):
            self._scaled.add(cls)

    def told(self) -> Any:
        """Whether Functions were met, those that give another gradient than their derivative, and those in no loss."""
        kept = [(cls, at) for cls, (_, flags, at) in self._met.items() if any(flags) and cls not in self._passed]
        dropped = [self._described(cls, at) for cls, at in kept]
        deaf = [told for cls, told in self._deaf.items() if cls in self._scaled]
        return {"met": bool(self._met) or self._packaged, "wrong": [*deaf, *self._wrong], "dropped": dropped}

    def _look(self, cls: Any, args: list[Any], flags: list[bool], at: Any) -> None:
        torch = self._torch
        places = [i for i, flag in enumerate(flags) if flag and args[i].is_floating_point()]
        steps = STEPS.get(str(args[places[0]].dtype).rpartition(".")[2]) if places else None
        if steps is None:
            return
        drawn = torch.get_rng_state()
        numbers = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor) and a.is_floating_point()]

        def call(xs: list[Any], at: list[int] = places) -> list[Any]:
            torch.set_rng_state(drawn)
            whole = list(args)
            for i, x in zip(at, xs, strict=True):
                whole[i] = x
            out = cls.apply(*whole)
            out = out if isinstance(out, tuple) else (out,)
            out = [o for n, o in enumerate(out) if n in self._taken.get(cls, range(len(out)))]
            return [o for o in out if isinstance(o, torch.Tensor) and o.is_floating_point()]

        xs = [args[i] for i in places]
        try:
            if self._is_deaf(call, xs):
                self._deaf[cls] = {**self._described(cls, at), "slope": 0.0, "gradient": 0.0}
            elif not any(self._moves_in_steps(call, i, args[i], steps[-1]) for i in numbers):
                # All at once, then each alone: an input of few numbers is lost beside one of many.
                ways = [(5, range(len(xs))), (6, range(len(xs))), *((5, [i]) for i in range(len(xs)) if len(xs) > 1)]
                found = [f for seed, moved in ways if (f := self._compare(call, xs, steps, seed, moved)) is not None]
                twice = not found and cls in self._derived
                if twice:
                    second = partial(self._derivative, call)
                    both = (self._compare(second, xs, steps, seed, range(len(xs)), True) for seed in (5, 6))
                    found = [f for f in both if f is not None]
                if found:  # by one direction alone any other gradient may look like the opposite
                    slope, said = max(found, key=lambda f: abs(f[1] / f[0] + 1.0))
                    self._wrong.append({**self._described(cls, at), "slope": slope, "gradient": said, "twice": twice})
        finally:
            torch.set_rng_state(drawn)

    def _moves_in_steps(self, call: Callable[[list[Any], list[int]], list[Any]], at: int, x: Any, step: float) -> bool:
        """Whether an input, one that needs no gradient perhaps, decides the outputs in steps."""
        torch = self._torch
        way = size_of(x) * torch.randn(x.shape, generator=torch.Generator().manual_seed(6), dtype=x.dtype)
        with torch.no_grad():
            old, near, far = (call([x + by * way], [at]) for by in (0.0, step, FAR))
        moved = [(o != f, o == n) for o, n, f in zip(old, near, far, strict=True)]
        return sum(int((m & r).sum()) for m, r in moved) > RESTS * sum(int(m.sum()) for m, _ in moved)

    def _is_deaf(self, call: _Call, xs: list[Any]) -> bool:
        """Whether two gradients that are not alike in anything come out as one: a derivative is linear in them. Who
        hands a value on as it is, and gives another gradient, does so on purpose."""
        torch, given = self._torch, list[list[Any]]()
        for factor in (1.0, -1.7):
            with torch.enable_grad():
                leaves = [x.clone().requires_grad_() for x in xs]
                outs = call(leaves)
                us = [torch.linspace(0.5, 1.5, o.numel(), dtype=o.dtype).reshape(o.shape) * factor for o in outs]
                given.append(list(torch.autograd.grad(outs, leaves, us, allow_unused=True)))
        pairs = [(a, b) for a, b in zip(*given, strict=True) if a is not None and b is not None]
        if any(g is not None and torch.equal(o, x) for x, g in zip(xs, given[0], strict=True) for o in outs):
            return False
        return any(bool(a.any()) for a, _ in pairs) and all(torch.equal(a, b) for a, b in pairs)

    def _derivative(self, call: _Call, xs: list[Any]) -> list[Any]:
        """What its backward gives for one gradient, with the graph of that."""
        with self._torch.enable_grad():
            xs = [x if x.requires_grad else x.detach().requires_grad_() for x in xs]
            outs = call(xs)
            us = [self._torch.linspace(0.5, 1.5, o.numel(), dtype=o.dtype).reshape(o.shape) for o in outs]
            given = self._torch.autograd.grad(outs, xs, us, create_graph=True, allow_unused=True)
            return [0 * x if g is None else g + 0 * x for x, g in zip(xs, given, strict=True)]

    def _compare(
        self, call: _Call, xs: list[Any], steps: Any, seed: int, chosen: Collection[int], all_of_them: bool = False
    ) -> tuple[float, float] | None:
        """What moving the chosen inputs (``all_of_them``: those too that get no gradient) does to an output, and what
        the backward says of it, where the two differ."""
        torch = self._torch
        generator = torch.Generator().manual_seed(seed)

        def like(x: Any) -> Any:
            return torch.randn(x.shape, generator=generator, dtype=x.dtype)

        with torch.enable_grad():
            leaves = [x.clone().requires_grad_() for x in xs]
            outs = call(leaves)
            us = [like(o) for o in outs]
            # A backward may write to what it is given.
            pairs = zip(outs, us, strict=True)
            rows = [torch.autograd.grad(o, leaves, u.clone(), True, allow_unused=True) for o, u in pairs]
        given = [[torch.zeros_like(x) if g is None else g for x, g in zip(xs, row, strict=True)] for row in rows]
        moves = [i in chosen and (all_of_them or any(bool(row[i].any()) for row in given)) for i in range(len(xs))]
        vs = [like(x) * may for x, may in zip(xs, moves, strict=True)]
        if any(o.shape == x.shape and torch.equal(o.detach(), x) for o in outs for x in xs):
            return None
        sizes = [[step * size_of(x) for x in xs] for step in steps]

        def moved_by(size: list[float], sign: int) -> list[Any]:
            return call([x + sign * s * v for x, s, v in zip(xs, size, vs, strict=True)])

        with torch.no_grad():
            moved = [[moved_by(size, sign) for sign in (1, -1)] for size in sizes]
        for n, (u, row) in enumerate(zip(us, given, strict=True)):
            found = []
            for size, (up, down) in zip(sizes, moved, strict=True):
                both = (up[n] - down[n]).double() * u.double()
                # Where the numbers are the elements' own, those that stand still or follow one to one are left out.
                if len(xs) == len(outs) == 1 and xs[0].shape == outs[0].shape:
                    slope = (up[n] - down[n]) / (2 * size[0] * vs[0])
                    kept = (slope.abs() > CLOSE) & ((slope - 1).abs() > CLOSE)
                    measured = float(both[kept].abs().sum()) / (2 * size[0])
                    said = float((row[0].double() * vs[0].double() * both.sign())[kept].sum())
                else:  # several inputs are moved by steps of their own
                    measured = float(both.sum()) / (2 * size[0])
                    products = (float((g.double() * v.double()).sum()) for g, v in zip(row, vs, strict=True))
                    said = sum(p * s / size[0] for p, s in zip(products, size, strict=True))
                found.append((measured, said))
            (first, _), (measured, said) = found[0], found[-1]
            steady = abs(first - measured) <= CLOSE * max(abs(first), abs(measured))
            if measured and steady and abs(said - measured) > CLOSE * max(abs(said), abs(measured)):
                return measured, said
        return None


# Functions that write to what they are given: a gradient that another operation is given too, a result that one has
# saved. No version counter tells of the first, nor of the second by way of ``data``.


class OnCopies(_OfClasses):
    """A watch of one fork in which the program's own Functions work on copies of what they are given. It tells those
    that write to one, ``side`` being the method that does and ``written`` its place: nobody else reads that write."""

    def __init__(self, torch: Any, own: list[tuple[type, CodeType]]) -> None:
        self._torch = torch
        self._own = own
        self._made: dict[type, Any] = {}
        self._writes: dict[tuple[type, str], tuple[CodeType, Any]] = {}

    def __enter__(self) -> OnCopies:
        for cls, code in self._own:
            for side in ("forward", "backward"):
                method = cls.__dict__.get(side)
                if isinstance(method, staticmethod):
                    setattr(cls, side, staticmethod(self._given_copies(cls, code, side, method.__func__)))
        return self

    def _given_copies(self, cls: type, code: CodeType, side: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            if side == "forward":
                self._made.setdefault(cls, stacks.stack_here(2))
            copies = [g.clone() if isinstance(g, self._torch.Tensor) else g for g in given]
            watch = _WriteWatch({home_of(c) for c in tensors_in(copies)})
            with watch:
                result = method(*copies)
            if watch.at is not None:
                self._writes.setdefault((cls, side), (code, watch.at))
            return result

        return call

    def told(self) -> list[dict[str, Any]]:
        found = ((self._described(c, self._made.get(c), code), s, at) for (c, s), (code, at) in self._writes.items())
        return [{**whose, "side": side, "written": self.frames(at)} for whose, side, at in found]


class _WriteWatch(TorchDispatchMode):
    """Where the first write to these memories is made."""

    def __init__(self, homes: set[int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._homes = homes
        self.at: Any = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.at is None and hasattr(func, "_schema") and writes_over(func):
            written = tensors_in(written_by(func, args, kwargs or {}))
            if any(home_of(t) in self._homes for t in written):
                self.at = stacks.stack_here(2)
        return result


def with_own_backward(audit: Audit | None) -> list[tuple[type, CodeType]]:
    """The Functions of the user's program, with the code of their backward; not those that were there before it."""
    older = audit.losses.older if audit is not None else ()
    found = ((cls, functions.backward_code(cls)) for cls in functions.subclasses(Function) if cls not in older)
    return [(cls, code) for cls, code in found if code is not None]


# Modules with a ``backward`` of their own, which autograd never calls: would it give another gradient?

ALIKE = 0.01
"""So far apart two gradients may lie and be the same."""


def backward_of(cls: type) -> CodeType | None:
    """The code of the ``backward(self, gradient)`` that a class of the user's has; else None."""
    code = getattr(cls.__dict__.get("backward"), "__code__", None)
    return code if code is not None and code.co_argcount > 1 and is_user_file(code.co_filename) else None


def with_backward(torch: Any) -> list[type]:
    """The classes of modules that have one."""
    return [cls for cls in functions.subclasses(torch.nn.Module) if backward_of(cls) is not None]


class UncalledCheck(_OfClasses):
    """A watch of one fork. Each such module that runs is asked for its gradient, beside that of autograd. One whose
    ``backward`` the program calls itself is never told, nor one that gives no tensor of its input's shape, or the same
    numbers as autograd."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._called: set[type] = set()
        self._found: dict[type, dict[str, Any]] = {}
        self._own: dict[type, Any] = {}

    def __enter__(self) -> UncalledCheck:
        every: list[Any] = with_backward(self._torch)
        for cls in every:
            self._own[cls] = cls.backward
            cls.backward = self._counting(cls, cls.backward)
        self._torch.nn.modules.module.register_module_forward_hook(self._passed)
        return self

    def _counting(self, cls: type, backward: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._called.add(cls)
            return backward(*args, **kwargs)

        return call

    def _passed(self, module: Any, args: Any, output: Any) -> None:
        cls, tensor = type(module), self._torch.Tensor
        given = [a for a in args if isinstance(a, tensor) and a.requires_grad]
        if cls not in self._own or cls in self._found or len(given) != 1 or not isinstance(output, tensor):
            return
        drawn = self._torch.get_rng_state()
        try:
            self._compare(cls, module, given[0], output)
        except Exception:
            return  # it takes something else than a gradient
        finally:
            self._torch.set_rng_state(drawn)

    def _compare(self, cls: type, module: Any, x: Any, output: Any) -> None:
        torch, backward = self._torch, self._own[cls]
        at = stacks.stack_here(4)
        way = torch.randn(output.shape, generator=torch.Generator().manual_seed(7), dtype=output.dtype)
        (gradient,) = torch.autograd.grad(output, x, way, retain_graph=True)
        with torch.no_grad():
            own = backward(module, way.clone())
        if not isinstance(own, torch.Tensor) or own.shape != x.shape:
            return
        size = float(gradient.double().pow(2).sum())
        if size and float((own - gradient).double().norm()) > ALIKE * size**0.5:
            whose = self._described(cls, at, backward.__code__)
            ratio = float((own.double() * gradient.double()).sum()) / size
            self._found[cls] = {**whose, "slope": 1.0, "gradient": ratio}

    def told(self) -> Any:
        """Those that would give another gradient, and were never called."""
        return [told for cls, told in self._found.items() if cls not in self._called]
