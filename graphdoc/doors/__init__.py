"""Ways in for programs that run already: tests, notebooks, trainers. Standard library only in the user's process.

What is observed there becomes a kept run as that of ``graphdoc run`` does, and is told by ``python -m graphdoc`` in a
process of its own, so that nothing of graphdoc's can clash with the user's packages.
"""
