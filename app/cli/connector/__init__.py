"""``graphkeep doctor --connector``: a connector's whole life, played against a running gateway as a client."""
