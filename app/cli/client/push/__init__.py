"""``graphkeep push``: what Claude Code wrote on this device goes to the gateway; only what is new, without secrets."""
