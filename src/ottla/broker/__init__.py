"""The node that wires everything together."""
