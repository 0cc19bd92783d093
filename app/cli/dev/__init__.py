"""``graphkeep dev``: everything on one machine, started in order and stopped in the opposite one."""
