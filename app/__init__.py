"""graphkeep: a gateway that gives people and their agents one private graph memory."""
