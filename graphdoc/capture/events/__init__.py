"""What is noted while the program runs: calls into the engine, optimizer steps, scaling, values that are not finite."""
