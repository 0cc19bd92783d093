"""Variables of the systems that graphkeep replaces: what each became, or why it has no counterpart.

A row with ``became`` is accepted as an alias of that setting (``app/settings``); a row without is ignored, and
says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["OLD_VARIABLES", "OldVariable"]


@dataclass(frozen=True, slots=True)
class OldVariable:
    """``name`` in the old system; ``became`` is the setting it is an alias of, None if it is not read."""

    name: str
    became: str | None
    words: str


def _is(name: str, became: str, words: str = "the same") -> OldVariable:
    return OldVariable(name, became, words)


def _gone(words: str, *names: str) -> tuple[OldVariable, ...]:
    return tuple(OldVariable(name, None, words) for name in names)


_IDENTITY: Final = (
    "the tenant comes from the verified token alone; a header, a constant or a foreign assertion cannot choose it"
)
_TOKENS: Final = "no shared secret: each agent has its own token, `graphkeep token create`"
_LISTEN: Final = "the gateway listens on loopback and a Unix socket; Caddy alone is public"
_TLS: Final = "Caddy serves HTTPS; a certificate of your own goes into the Caddyfile (`tls CERT KEY`)"
_NOTES: Final = "belongs to the knowledge toolset, which this version does not serve yet"
_CHAT: Final = "no chat model is called in this version"
_COMPOSE: Final = "read by docker-compose.yml, not by the gateway"
_KEYS: Final = (
    "a key that other programs use is not sent to the configured endpoint by itself; copy it to GRAPHKEEP_EMBEDDING_KEY"
)

OLD_VARIABLES: Final[tuple[OldVariable, ...]] = (
    _is("GRAPH_MEMORY_HOME", "GRAPHKEEP_HOME", "the folder of everything that is kept"),
    _is("NEO4J_URI", "NEO4J_URI", "the same; unset, graphkeep runs a database of its own"),
    _is("NEO4J_USER", "NEO4J_USER"),
    _is("NEO4J_USERNAME", "NEO4J_USER"),
    _is("NEO4J_PASSWORD", "NEO4J_PASSWORD", "the same; only from the environment"),
    _is("NEO4J_DATABASE", "NEO4J_DATABASE"),
    _is("MCP_PORT", "GRAPHKEEP_HTTP_PORT", "the plain port, on loopback only"),
    _is("GRAPH_MCP_HTTP_PORT", "GRAPHKEEP_HTTP_PORT", "the plain port, on loopback only"),
    _is("OAUTH_ISSUER", "GRAPHKEEP_PUBLIC_URLS", "each public address is an issuer of its own"),
    _is("OAUTH_REDIRECT_URI_HOSTS", "GRAPHKEEP_REDIRECT_HOSTS", "who may be redirected to"),
    _is("OAUTH_ALLOWED_EMAILS", "GRAPHKEEP_ALLOWED_EMAILS", "for those who sign in by a provider or Access"),
    _is("CF_ACCESS_TEAM_DOMAIN", "GRAPHKEEP_ACCESS_TEAM_DOMAIN", "its assertions sign people in"),
    _is("CF_ACCESS_AUD", "GRAPHKEEP_ACCESS_AUDIENCE"),
    _is("BOOTSTRAP_TENANT_ID", "GRAPHKEEP_ADMIN_TENANT", "the operators' tenant"),
    _is("GRAPH_MCP_EMBED_BASE_URL", "GRAPHKEEP_EMBEDDING", "address of an OpenAI-compatible endpoint"),
    _is("EMBED_BASE_URL", "GRAPHKEEP_EMBEDDING", "address of an OpenAI-compatible endpoint"),
    _is("GRAPH_MCP_EMBED_MODEL", "GRAPHKEEP_EMBEDDING_MODEL", "the endpoint's model"),
    *_gone("the command chooses: `graphkeep serve` or `graphkeep stdio`", "MCP_TRANSPORT", "GRAPH_MCP_TRANSPORT"),
    *_gone("`graphkeep stdio --tenant` names it", "LOCAL_TENANT_ID"),
    *_gone(_IDENTITY, "TENANT_ID_SOURCE"),
    *_gone("a registration is stored only when a person consents, so there is nothing to cap", "OAUTH_MAX_CLIENTS"),
    *_gone(_TLS, "TLS_CERT", "TLS_KEY"),
    *_gone(_TOKENS, "GRAPH_MCP_AUTH_TOKEN"),
    *_gone(_LISTEN, "GRAPH_MCP_HTTP_HOST"),
    *_gone("the endpoint is always /mcp", "GRAPH_MCP_HTTP_PATH"),
    *_gone("the hosts of GRAPHKEEP_PUBLIC_URLS are the ones that are answered", "GRAPH_MCP_ALLOWED_HOSTS"),
    *_gone("measured when the model is chosen, and recorded in the database", "GRAPH_MCP_EMBED_DIM"),
    *_gone("concurrent texts are batched by themselves", "GRAPH_MCP_EMBED_BATCH"),
    *_gone("GRAPHKEEP_EMBEDDING_SECONDS bounds it, inside the deadline of the call", "GRAPH_MCP_EMBED_TIMEOUT"),
    *_gone(_KEYS, "OPENAI_API_KEY", "XAI_API_KEY"),
    *_gone(
        _NOTES,
        "GRAPH_MCP_KB_ROOT",
        "KNOWLEDGE_MCP_ROOT",
        "GRAPH_MCP_CHUNK_WORDS",
        "GRAPH_MCP_CHUNK_OVERLAP",
        "GRAPH_MCP_SEMANTIC_TOOLS",
        "GRAPH_MCP_MAX_ENTITIES_PER_DOC",
        "GRAPH_MCP_ENTITY_MERGE_THRESHOLD",
    ),
    *_gone(
        _CHAT,
        "GRAPH_MCP_LLM_BASE_URL",
        "GRAPH_MCP_LLM_MODEL",
        "GRAPH_MCP_LLM_API_KEY",
        "GRAPH_MCP_LLM_MAX_TOKENS",
        "GRAPH_MCP_LLM_TIMEOUT",
        "GRAPH_MCP_LLM_DISABLE_THINKING",
        "GRAPH_MCP_LLM_CONCURRENCY",
    ),
    *_gone(_COMPOSE, "AGENT_NETWORK", "AGENT_NETWORK_EXTERNAL", "BOLT_BIND_ADDR", "NEO4J_MEM_LIMIT"),
    *_gone("Neo4j's own HTTP port is never opened", "BROWSER_BIND_ADDR"),
    *_gone("set by docker-compose.yml from NEO4J_PASSWORD", "NEO4J_AUTH"),
    *_gone("`graphkeep import FILE --from graph-memory` takes the file as an argument", "BACKUP_FILE", "FORCE_WIPE"),
    *_gone("tests run on databases of their own, never on yours", "ALLOW_DESTRUCTIVE_TESTS"),
)
