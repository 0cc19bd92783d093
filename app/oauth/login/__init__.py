"""How a person signs in: each way a module, one session at the end of all of them."""
