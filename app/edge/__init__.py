"""The edge: what every request meets before anyone knows who sent it."""
