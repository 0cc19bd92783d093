"""Requests to places that a stranger named: to the public internet, and to nothing else."""
