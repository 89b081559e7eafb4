"""PyTorch's own documentation as (title, address) pairs, so that no page spells an address twice."""

from __future__ import annotations

_DOCS = "https://docs.pytorch.org/docs/stable"

Link = tuple[str, str]

GRAPH_HISTORY: Link = (
    "Autograd mechanics: how autograd encodes the history",
    f"{_DOCS}/notes/autograd.html#how-autograd-encodes-the-history",
)
SAVED_TENSORS: Link = ("Autograd mechanics: saved tensors", f"{_DOCS}/notes/autograd.html#saved-tensors")
IN_PLACE: Link = (
    "Autograd mechanics: in-place operations and correctness checks",
    f"{_DOCS}/notes/autograd.html#in-place-operations-with-autograd",
)
GRAD_MODES: Link = (
    "Autograd mechanics: locally disabling gradient computation",
    f"{_DOCS}/notes/autograd.html#locally-disabling-gradient-computation",
)
BACKWARD: Link = ("torch.Tensor.backward", f"{_DOCS}/generated/torch.Tensor.backward.html")
GRAD: Link = ("torch.autograd.grad", f"{_DOCS}/generated/torch.autograd.grad.html")
DETACH: Link = ("torch.Tensor.detach", f"{_DOCS}/generated/torch.Tensor.detach.html")
CLONE: Link = ("torch.clone", f"{_DOCS}/generated/torch.clone.html")
STACK: Link = ("torch.stack", f"{_DOCS}/generated/torch.stack.html")
NO_GRAD: Link = ("torch.no_grad", f"{_DOCS}/generated/torch.no_grad.html")
INFERENCE_MODE: Link = (
    "torch.inference_mode",
    f"{_DOCS}/generated/torch.autograd.grad_mode.inference_mode.html",
)
TENSOR_VIEWS: Link = ("Tensor views", f"{_DOCS}/tensor_view.html")
OPTIM: Link = ("torch.optim", f"{_DOCS}/optim.html")
ZERO_GRAD: Link = (
    "torch.optim.Optimizer.zero_grad",
    f"{_DOCS}/generated/torch.optim.Optimizer.zero_grad.html",
)
FUNCTIONAL_CALL: Link = ("torch.func.functional_call", f"{_DOCS}/generated/torch.func.functional_call.html")
MODULE_BUFFERS: Link = (
    "torch.nn.Module.register_buffer",
    f"{_DOCS}/generated/torch.nn.Module.html#torch.nn.Module.register_buffer",
)
LOAD_STATE_DICT: Link = (
    "torch.nn.Module.load_state_dict",
    f"{_DOCS}/generated/torch.nn.Module.html#torch.nn.Module.load_state_dict",
)
PARAMETRIZATIONS: Link = (
    "torch.nn.utils.parametrize.cached",
    f"{_DOCS}/generated/torch.nn.utils.parametrize.cached.html",
)
FAQ_MEMORY: Link = (
    "Frequently asked questions: don't accumulate history across your training loop",
    f"{_DOCS}/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
)
