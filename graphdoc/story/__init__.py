"""What is told of a fault: its places, facts and words."""
