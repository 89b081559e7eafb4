"""GD611: eigenvalues or singular values that are equal."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Remedy
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.remedies.fix_places import to_finish
from graphdoc.story.first_bad_value import Words, called, explained, function

PAGE = Page(
    code="GD611",
    title="A decomposition is differentiated at equal eigenvalues",
    families=("silent", "invalid-gradient"),
    what_happened="""\
The eigenvalues of a matrix have derivatives; its eigenvectors have none where two eigenvalues are equal: any rotation
between them is as good. PyTorch's formula divides by the differences of the values, so it gives inf or nan. A zero
matrix, the identity, a covariance of silent channels, a ridge added to it (all values equal then) and a symmetric
start are such matrices. For the singular vectors it is the same.""",
    why="""\
The nan appears in the gradient alone; the forward pass of that step is fine. In the next one the function is given a
matrix of nan and may raise *failed to converge* or speak of ill conditioning, which is not what is wrong with it.""",
    example="""\
values, vectors = torch.linalg.eigh(covariance)
root = (vectors * values.sqrt()) @ vectors.mT""",
    use_instead="""\
ridge = 1e-4 * torch.diag(torch.linspace(1.0, 2.0, n))  # distinct, so that the values are
values, vectors = torch.linalg.eigh(covariance + ridge)
root = (vectors * values.sqrt()) @ vectors.mT""",
    fix_safety="""\
Display: which remedy is right depends on what the vectors are for. Where only values are used, `eigvalsh` and
`svdvals` have a derivative. A symmetric function of the matrix (a root, a logarithm) has a regular derivative of its
own, to be written as a `torch.autograd.Function`. A distinct jitter on the diagonal changes the numbers by its size:
for `eigh` there is a patch with a placeholder for that size.
""",
    not_this="- The matrix had nan or inf before: the report then names what made them.",
    references=("torch.linalg.eigh", "torch.linalg.svd"),
)


@explained("nan-repeated-eigenvalues")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value is the gradient behind an eigenvalue or singular value decomposition."""
    operand = called(trouble, birth, "the matrix")
    values = birth.saved("L", "S")
    bounds = values.bounds if values is not None else None
    singular = "svd" in birth.node.lower()
    zeros = singular and values is not None and bool(values.count("zeros"))
    kind = "singular values" if singular else "eigenvalues"
    vectors = "singular vectors" if singular else "eigenvectors"
    what = "equal or zero" if zeros else "equal"
    told = f"{kind} that are equal or zero" if zeros else f"equal {kind}"
    shown = f"the values lie between {bounds[0]:.4g} and {bounds[1]:.4g}, some of them {what}" if bounds else ""
    title = "Make the values distinct, or differentiate only what has a derivative"
    note = "A distinct jitter on the diagonal, `eigvalsh`/`svdvals`, or a Function for the symmetric function."
    label = (
        "divides by the values and their differences in backward"
        if zeros
        else "its backward divides by the differences of the values"
    )
    text = f"the derivative of {function(trouble, birth)} divides by "
    text += "a zero: a value, or the difference of two." if zeros else "differences of values that are equal."
    remedies = (*(_spread(birth) if not singular else ()), Remedy("distinct_diagonal", title, "display", note))
    return Words(f"{operand} has {told}: the {vectors} have no derivative", label, shown, text, remedies)


def _spread(birth: Birth) -> tuple[Remedy, ...]:
    title = "make the eigenvalues distinct by a jitter on the diagonal"
    note = "The values change by about as much. The smaller the jitter, the larger the derivatives of the vectors."
    args = {"JITTER": "a number that is small beside the eigenvalues, such as a thousandth of them"}
    return to_finish(birth.place, "spread_diagonal", title, note, args, jitter="JITTER")
