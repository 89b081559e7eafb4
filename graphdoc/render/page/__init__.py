"""The parts of the HTML page: the graph as SVG, the calls of the run, curves, and the source they link to."""
