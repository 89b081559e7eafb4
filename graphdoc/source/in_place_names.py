"""Which in-place methods have no counterpart without the underscore, where ``inplace`` stands, and what is new."""

from __future__ import annotations

import ast

from graphdoc.source.paths import last_word

# Written anew instead, ``{x}`` being the tensor and ``{a}`` the arguments.
REPLACEMENTS = {
    "zero_": "{torch}.zeros_like({x})",
    "fill_": "{torch}.full_like({x}, {a})",
    "copy_": "{a}.clone()",
}

# No method of that name without the underscore does the same: the tensor is cloned before the write.
WITHOUT_COUNTERPART = frozenset(
    {"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_", "geometric_", "log_normal_"}
    | {"set_", "resize_", "resize_as_", "apply_", "map_", "map2_", "fill_diagonal_", "as_strided_", "rename_"}
    | {"resize_as_sparse_", "sparse_resize_", "sparse_resize_and_clear_"}
)

# They end in an underscore and write no element.
NOT_A_WRITE = frozenset(
    {"requires_grad_", "detach_", "share_memory_", "retain_grad_", "_coalesced_", "module_load_", "rename_"}
)

# The position of ``inplace`` in torch.nn classes and torch.nn.functional functions.
POSITIONS = {
    "ReLU": 0, "ReLU6": 0, "SiLU": 0, "Mish": 0, "Hardswish": 0, "Hardsigmoid": 0, "SELU": 0,
    "ELU": 1, "CELU": 1, "LeakyReLU": 1, "Dropout": 1, "Dropout1d": 1, "Dropout2d": 1, "Dropout3d": 1,
    "AlphaDropout": 1, "FeatureAlphaDropout": 1, "RReLU": 2, "Threshold": 2, "Hardtanh": 2,
    "relu": 1, "relu6": 1, "silu": 1, "mish": 1, "hardswish": 1, "hardsigmoid": 1, "selu": 1,
    "elu": 2, "celu": 2, "leaky_relu": 2, "dropout": 3, "dropout1d": 3, "dropout2d": 3, "dropout3d": 3,
    "alpha_dropout": 3, "feature_alpha_dropout": 3, "rrelu": 4, "threshold": 3, "hardtanh": 3,
}  # fmt: skip

FRESH = frozenset({
    "exp", "expm1", "log", "log1p", "log2", "log10", "sigmoid", "logsigmoid", "tanh", "sqrt", "rsqrt", "reciprocal",
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "erf", "erfc", "neg", "abs",
    "softmax", "log_softmax", "softplus", "logsumexp", "pow", "square", "add", "sub", "mul", "div", "matmul", "mm",
    "bmm", "mv", "dot", "outer", "addmm", "baddbmm",
    "sum", "mean", "prod", "norm", "vector_norm", "var", "std", "amax", "amin", "cumsum", "cumprod", "logcumsumexp",
    "dist", "cdist", "einsum", "linear", "conv1d", "conv2d", "conv3d",
    "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "where",
    "cat", "stack", "clone", "lerp",
    "gather", "index_select", "masked_select", "masked_fill", "tril", "triu", "flip", "roll", "repeat_interleave",
    "layer_norm",
})  # fmt: skip
"""Functions and methods of tensors whose result is new and nobody else's, never a view of what they got."""


def is_fresh(root: ast.expr) -> bool:
    """Whether an expression computes a tensor that nothing else holds: ``torch.exp(x)``, ``x.exp()``."""
    return (
        isinstance(root, ast.Call)
        and last_word(root.func) in FRESH
        and not any(k.arg in ("out", "inplace", None) for k in root.keywords)
    )
