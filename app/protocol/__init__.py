"""The MCP room: one envelope, one registry, one dispatch, served in both protocol eras."""
