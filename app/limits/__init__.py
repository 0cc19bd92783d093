"""How much a tenant or client may do at once, in a minute, and for how long."""
