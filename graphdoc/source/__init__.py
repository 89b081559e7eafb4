"""The user's source by position: which expression stands where, and how to change just that.

Reading works on the parser's positions (``ast``), from which the interpreter takes the columns of a traceback too: a
frame of the evidence and a node here agree to the character. A change names such nodes (``edits``) and is made on
libcst's tree of the one top-level statement that they stand in (``concrete``): comments, blanks and parentheses are
nodes there, and all other statements stay as they are. Of a whole file that tree, with its positions, costs more than
0.5 s for 3,000 lines; the parser's index costs less than 0.1 s.
"""
