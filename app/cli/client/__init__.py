"""The light client: what works with graphkeep's base dependencies alone. Imports only settings and errors."""
