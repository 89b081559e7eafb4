import functools
import torch


def wrap(*args, **kwargs):
    return lambda f: f


@wrap(1,
      2)
@functools.wraps(  # a comment inside a decorator
    print
)
@torch.no_grad()
def evaluate(model, x):
    """Doc."""
    return model(x)


class Model:
    @property
    def size(self): return 3

    @staticmethod
    @wrap(key="@not a decorator")
    def run(x): return x.sum()

    @classmethod
    async def later(cls, x):
        async with x as y: z = y + 1
        return await z
