"""Pages for people: their own connections, tokens and ways in; tenants for owners; the gateway for operators."""
