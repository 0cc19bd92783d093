"""Resources of the memory, and what arguments are completed from."""
