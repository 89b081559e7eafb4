"""Where code is: the stack of each node, frames, and the text of a file that has run."""
