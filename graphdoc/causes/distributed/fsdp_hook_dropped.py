"""GD808: an in-place write into what a module of FSDP2 returned; its parameters are then not gathered for backward."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.finding import Finding
from graphdoc.program.installed import DroppedHook, builders, dropped_hook
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import innermost_user, moment, span, where
from graphdoc.program.writers import is_statement, target_of
from graphdoc.remedies.in_place_write import instead_of_write

PAGE = Page(
    code="GD808",
    title="An in-place write drops the hook with which FSDP2 gathers parameters for backward",
    families=("ddp",),
    what_happened="""\
A module that is wrapped by `fully_shard` returns a **view**: its forward ends with `squeeze`, `view`, `reshape`,
`transpose`, `[:, 0]` or the like. The code that called it writes into that view in place (`out += y`). In backward the
parameters of the module are still sharded, their memory is free, and the first operation of the module that needs one
of them fails.""",
    why="""\
With `reshard_after_forward=True` FSDP2 frees the gathered parameters after the forward. It registers a hook on each
tensor that the module returns; when the gradient of that tensor arrives, the hook gathers the parameters again.

A hook on a tensor belongs to its `grad_fn`. A recorded in-place write into a view changes the history of the base, and
the view gets a new `grad_fn`, without the hook. The old one is no longer part of the graph, so the hook never runs.
Newer versions of PyTorch warn of it in the forward: *FSDP2-wrapped module (…) returned a view tensor*.

If the parameters happen to be there in backward (`reshard_after_forward=False`, or another module has gathered them),
nothing fails here.""",
    example="""\
fully_shard(embed, reshard_after_forward=True)  # embed.forward ends with .squeeze(1)

out = embed(x)
out += y  # the view gets a new grad_fn, without FSDP2's hook""",
    use_instead="""\
out = embed(x)
out = out + y  # a new tensor; the view keeps its grad_fn and its hook""",
    fix_safety="""\
Writing out of place leaves the numbers of the forward as they are and gives the gradients that were asked for. It is
unsafe in one respect: what the output was a view of keeps its numbers, which the write would have changed. That matters
only where the module has kept its own result.

A `clone()` of the output before the write does the same. Inside the wrapped module the write is harmless: the hook is
registered on what the module returns at last.""",
    not_this="""\
- Parameters are used outside of the forward of the module that `fully_shard` wraps: call the module, or
  `module.unshard()` first.
- The write is refused at once, with a message about a view: `inplace-on-view`.""",
    references=(
        ("torch.distributed.fsdp.fully_shard", "distributed.fsdp.fully_shard.html"),
        links.TENSOR_VIEWS,
        links.IN_PLACE,
    ),
)


def recognise(program: Program) -> Finding | None:
    """The hook did not run, and what the module had returned was written from outside."""
    found = dropped_hook(program.evidence.extras, program.evidence.nodes)
    return _told(program, found) if found is not None else None


def _told(program: Program, found: DroppedHook) -> Finding | None:
    frame = innermost_user(found.write.stack)
    assert frame is not None
    visible = is_statement(program.sources, frame)
    target = target_of(program.evidence, frame)
    what = f"`{target.path}`" if visible and target.path else "a view"
    places = [frame] if visible else builders(program.sources, frame, found.write.stack)
    spans = [span("cause", frame, f"writes into {what} in place: the hook is lost", moment(found.write))]
    if found.called is not None:
        spans.append(span("created", found.called, f"`{found.module}` returns a view, with FSDP2's hook on it"))
    return Finding(
        *Proof.NODE.at(0.97),
        f"changing {what} in place drops the hook that gathers `{found.module}` for backward",
        f"{where(frame)} writes into a view that `{found.module}`, wrapped by `fully_shard`, had returned. The view "
        "got a new `grad_fn`; FSDP2's pre-backward hook stayed with the old one. So the parameters were not gathered "
        "when backward reached the module.",
        (*spans, *program.raised_span(f"backward reaches `{found.module}`, whose parameters are not gathered")),
        (f"FSDP2's pre-backward hook of `{found.module}` did not run in this backward",),
        instead_of_write(program, places, target),
    )
