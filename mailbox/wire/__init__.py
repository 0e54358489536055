"""The HTTP wire, as values: what a state process is asked and what it answers."""
