"""What tensors and the objects that hold them say of themselves: facts, names, numbers, what nodes have saved."""
