"""The authorization server: one module per RFC or specification."""
