"""PyTorch's own documentation as (title, address) pairs, so that no page spells an address twice."""

from __future__ import annotations

_DOCS = "https://docs.pytorch.org/docs/stable"

Link = tuple[str, str]


def link(reference: str | Link) -> Link:
    """Title and whole address of what a page refers to.

    Args:
        reference: what PyTorch documents on a page of its own (``torch.stack``, ``Tensor.item``), or a title and an
            address, whole or below the documentation of the stable release.
    """
    if isinstance(reference, str):
        of_torch = f"torch.{reference}" if reference.startswith("Tensor.") else reference
        return reference, f"{_DOCS}/generated/{of_torch}.html"
    title, address = reference
    return title, address if address.startswith("https:") else f"{_DOCS}/{address}"


GRAPH_HISTORY = (
    "Autograd mechanics: how autograd encodes the history",
    "notes/autograd.html#how-autograd-encodes-the-history",
)
SAVED_TENSORS = ("Autograd mechanics: saved tensors", "notes/autograd.html#saved-tensors")
IN_PLACE = (
    "Autograd mechanics: in-place operations and correctness checks",
    "notes/autograd.html#in-place-operations-with-autograd",
)
GRAD_MODES = (
    "Autograd mechanics: locally disabling gradient computation",
    "notes/autograd.html#locally-disabling-gradient-computation",
)
INFERENCE_MODE = ("torch.inference_mode", "generated/torch.autograd.grad_mode.inference_mode.html")
TENSOR_VIEWS = ("Tensor views", "tensor_view.html")
OPTIM = ("torch.optim", "optim.html")
MODULE_BUFFERS = ("torch.nn.Module.register_buffer", "generated/torch.nn.Module.html#torch.nn.Module.register_buffer")
LOAD_STATE_DICT = ("torch.nn.Module.load_state_dict", "generated/torch.nn.Module.html#torch.nn.Module.load_state_dict")
FAQ_MEMORY = (
    "Frequently asked questions: don't accumulate history across your training loop",
    "notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
)
