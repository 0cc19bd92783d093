"""The resource server: from a bearer token to a principal, and from a principal to what a call may touch."""
