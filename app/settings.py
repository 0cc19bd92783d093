"""Every setting, one class per room. ``docs/SETTINGS.md`` and ``.env.example`` are generated from these classes.

Each variable is ``GRAPHKEEP_<FIELD>``; variables of the systems that graphkeep replaces are accepted as aliases.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.config_file import Configured

__all__ = [
    "EdgeSettings",
    "EmbeddingSettings",
    "IngestSettings",
    "LimitSettings",
    "MemorySettings",
    "OAuthSettings",
    "RunSettings",
    "Settings",
    "SignInSettings",
    "StoreSettings",
]

PREFIX = "GRAPHKEEP_"

_RATE = re.compile(r"[A-Za-z][A-Za-z0-9_]*\s*=\s*(?P<rate>[01](?:\.\d+)?)\Z")


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


CommaList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


def _names(*old: str) -> AliasChoices:
    """The variables of a field, the graphkeep one first."""
    return AliasChoices(*old)


class _Room(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=".env", extra="ignore", frozen=True, populate_by_name=True, env_ignore_empty=True
    )


class RunSettings(_Room):
    """Where graphkeep lives and listens on this machine."""

    home: Path = Field(
        default=Path("~/.graphkeep"),
        validation_alias=_names("GRAPHKEEP_HOME", "GRAPH_MEMORY_HOME"),
        description="Folder for the database, keys, caches and certificates.",
    )
    http_port: int = Field(
        default=8080,
        ge=1,
        le=65535,
        validation_alias=_names("GRAPHKEEP_HTTP_PORT", "MCP_PORT", "GRAPH_MCP_HTTP_PORT"),
        description="Plain port on the loopback interface.",
    )
    https_port: int = Field(default=8443, ge=1, le=65535, description="Port at which Caddy serves HTTPS.")
    socket: Path | None = Field(
        default=None,
        description="Unix socket at which Caddy reaches the gateway; unset: `run/gateway.sock` in the home folder.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe line logged."
    )
    stop_seconds: float = Field(default=10.0, gt=0, le=120, description="Longest time that stopping may take, seconds.")

    @cached_property
    def folder(self) -> Path:
        """The home folder, absolute."""
        return self.home.expanduser().absolute()

    def tenant_folder(self, data: str) -> Path:
        """Where the files of the tenant with this data id lie: exports and what it was sent."""
        return self.folder / "tenants" / data

    @cached_property
    def socket_path(self) -> Path:
        """The Unix socket, absolute; a name that the system would refuse (108 bytes) moves to the temporary folder."""
        path = (self.socket or self.folder / "run" / "gateway.sock").expanduser().absolute()
        if len(os.fsencode(path)) < 100:
            return path
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"graphkeep-{os.getuid()}-{digest}" / "gateway.sock"


class EdgeSettings(_Room):
    """What the edge accepts."""

    public_urls: CommaList = Field(
        default=(),
        validation_alias=_names("GRAPHKEEP_PUBLIC_URLS", "OAUTH_ISSUER"),
        description="Public base addresses, comma-separated, each its own issuer. Default: the two local ones.",
    )
    allowed_origins: CommaList = Field(
        default=("https://claude.ai", "https://claude.com", "https://chatgpt.com", "https://vscode.dev"),
        description="Web origins, besides the public addresses, whose pages may call the gateway.",
    )
    trusted_proxies: CommaList = Field(
        default=(),
        description="Addresses or networks whose forwarded headers are believed (the Unix socket always is).",
    )
    body_limit: int = Field(default=4 * 1024 * 1024, ge=1024, description="Largest request body, bytes.")
    oauth_body_limit: int = Field(
        default=64 * 1024, ge=1024, description="Largest body at OAuth endpoints and pages, bytes."
    )
    metrics_port: int | None = Field(default=None, description="Loopback port for /metrics; unset: not served.")


class StoreSettings(_Room):
    """The database."""

    neo4j_uri: str | None = Field(
        default=None,
        validation_alias=_names("NEO4J_URI", "GRAPHKEEP_NEO4J_URI"),
        description="Bolt address of an external Neo4j 2026.02 or newer; unset: a managed child process.",
    )
    neo4j_user: str = Field(
        default="neo4j",
        validation_alias=_names("NEO4J_USER", "NEO4J_USERNAME", "GRAPHKEEP_NEO4J_USER"),
        description="Database user.",
    )
    neo4j_password: SecretStr | None = Field(
        default=None,
        validation_alias=_names("NEO4J_PASSWORD", "GRAPHKEEP_NEO4J_PASSWORD"),
        description="Password; required for an external database.",
    )
    neo4j_database: str = Field(
        default="neo4j",
        validation_alias=_names("NEO4J_DATABASE", "GRAPHKEEP_NEO4J_DATABASE"),
        description="Database name.",
    )
    pool_size: int = Field(default=50, ge=2, le=400, description="Largest number of database connections.")
    heap: str = Field(default="1g", pattern=r"^\d+[mg]$", description="Heap of the managed database.")
    page_cache: str = Field(default="256m", pattern=r"^\d+[mg]$", description="Page cache of the managed database.")
    engine_cache: Path | None = Field(
        default=None,
        description="Folder of the managed database's program, shareable between homes; unset: `engine` in the home.",
    )
    plan_ahead: bool = Field(default=True, description="Plan the tools' statements at start, before the first call.")
    undo_days: int = Field(
        default=30, ge=1, le=3650, description="Time in which a merge, a deletion or the like can be undone, days."
    )
    undo_bytes: int = Field(
        default=2**28, ge=2**24, description="Bytes of a tenant's undo records; the oldest go first."
    )


class OAuthSettings(_Room):
    """The authorization server."""

    redirect_hosts: CommaList = Field(
        default=(
            "https://claude.ai",
            "https://claude.com",
            "https://chatgpt.com",
            "https://vscode.dev",
            "cursor://",
            "vscode://",
        ),
        validation_alias=_names("GRAPHKEEP_REDIRECT_HOSTS", "OAUTH_REDIRECT_URI_HOSTS"),
        description="Hosts and private-use schemes that clients may be redirected to; loopback always; `*` opens it.",
    )
    pinned_clients: Path | None = Field(
        default=None,
        description="JSON file with a list of client metadata documents that count as they stand there and are never "
        "fetched; those of Claude are known without it.",
    )
    client_document_hosts: CommaList = Field(
        default=(),
        description="Hosts (`host` or `host:port`) whose client metadata documents are fetched although their address "
        "is not public or their port not 443. Default: none.",
    )
    access_token_seconds: int = Field(default=3600, ge=60, le=86400, description="Life of an access token, seconds.")
    refresh_token_days: int = Field(
        default=30, ge=1, le=365, description="Life of a refresh token since its last use, days."
    )
    code_seconds: int = Field(default=60, ge=10, le=600, description="Life of an authorization code, seconds.")
    refresh_grace_seconds: int = Field(
        default=30,
        ge=0,
        le=300,
        description="Time in which a used refresh token still yields its one successor, seconds.",
    )
    secret_key: SecretStr | None = Field(
        default=None,
        description="Key that encrypts keys at rest (32 bytes, base64url); unset: a 0600 file in the home folder.",
    )
    admin_tenant: str = Field(
        default="admin",
        validation_alias=_names("GRAPHKEEP_ADMIN_TENANT", "BOOTSTRAP_TENANT_ID"),
        description="Name of the operators' tenant.",
    )


class SignInSettings(_Room):
    """Ways to sign in besides local accounts."""

    oidc_issuer: str | None = Field(
        default=None,
        description="Issuer of an OpenID Connect provider that people may sign in with; let it redirect to "
        "`/sign-in/provider/callback` of each public address.",
    )
    oidc_client_id: str | None = Field(default=None, description="This gateway's client id at the provider.")
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="Its secret there; unset: a public client, with PKCE alone."
    )
    oidc_label: str = Field(
        default="your organisation", max_length=60, description="What the sign-in page calls the provider."
    )
    oidc_scopes: str = Field(default="openid email", description="Scopes asked of the provider, with `openid`.")
    access_team_domain: str | None = Field(
        default=None,
        validation_alias=_names("GRAPHKEEP_ACCESS_TEAM_DOMAIN", "CF_ACCESS_TEAM_DOMAIN"),
        description="Cloudflare Access team, `myteam.cloudflareaccess.com`: its assertions sign people in. They count "
        "only from the Unix socket and GRAPHKEEP_TRUSTED_PROXIES.",
    )
    access_audience: str | None = Field(
        default=None,
        validation_alias=_names("GRAPHKEEP_ACCESS_AUDIENCE", "CF_ACCESS_AUD"),
        description="Audience tag of the Access application.",
    )
    allowed_emails: CommaList = Field(
        default=(),
        validation_alias=_names("GRAPHKEEP_ALLOWED_EMAILS", "OAUTH_ALLOWED_EMAILS"),
        description="Who may sign in by provider or Access: addresses, `*@domain`, or `*` for everyone whom it vouches "
        "for. Required with either; an entry that is none of these stops the start.",
    )


class LimitSettings(_Room):
    """How much a tenant or client may do, and how long a call may take."""

    redis_url: SecretStr | None = Field(
        default=None, description="Redis for limits shared by several processes; unset: in process."
    )
    calls_per_minute: float = Field(
        default=120, gt=0, description="Tokens that a (tenant, client) bucket gains a minute."
    )
    burst: int = Field(default=20, ge=1, description="Tokens that a bucket holds at most.")
    concurrent_reads: int = Field(default=8, ge=1, description="Reads of one tenant under way at once.")
    concurrent_writes: int = Field(default=4, ge=1, description="Writes of one tenant under way at once.")
    concurrent_whole_graph: int = Field(
        default=1, ge=1, description="Whole-graph calls of one tenant under way at once."
    )
    queue_seconds: float = Field(default=1.0, ge=0, description="Longest wait for a free slot, seconds.")
    open_requests: int = Field(
        default=1000, ge=1, description="Requests under way in one process before new ones are refused."
    )
    read_seconds: float = Field(default=15, gt=0, description="Deadline of a read, seconds.")
    semantic_seconds: float = Field(default=30, gt=0, description="Deadline of a semantic search, seconds.")
    write_seconds: float = Field(default=15, gt=0, description="Deadline of a write, seconds: 10 + 3 + 1 + 1.")
    cypher_seconds: float = Field(default=5, gt=0, description="Deadline of a raw Cypher read, seconds.")
    whole_graph_seconds: float = Field(default=120, gt=0, description="Deadline of a whole-graph call, seconds.")
    result_characters: int = Field(default=60_000, ge=1000, description="Largest result of a tool, characters.")
    quota_entities: int = Field(default=200_000, ge=1, description="Entities of one tenant.")
    quota_relations: int = Field(default=2_000_000, ge=1, description="Relations of one tenant.")


class MemorySettings(Configured, _Room):
    """How what is remembered grows stronger, fades and goes."""

    boost: float = Field(
        default=0.15, ge=0, le=1, description="What graph_boost adds to a weight, unless the call says how much."
    )
    weaken: float = Field(
        default=0.2, ge=0, le=1, description="What graph_weaken takes from a weight, unless the call says how much."
    )
    mention: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="What being mentioned again adds to a weight that the call does not raise.",
    )
    decay_rates: CommaList = Field(
        default=(
            "Person=0.998",
            "Project=0.995",
            "Preference=0.999",
            "Concept=0.999",
            "Decision=0.997",
            "Fact=0.996",
            "Event=0.993",
            "Object=0.996",
            "Reasoning=0.996",
        ),
        description="By type of entity: the part of its confidence that is left after each day without a mention. "
        "Types that are not named here have GRAPHKEEP_DECAY_OTHER_RATE.",
    )
    decay_other_rate: float = Field(default=0.996, gt=0, le=1, description="The same for every other type.")
    decay_edge_rate: float = Field(
        default=0.997, gt=0, le=1, description="The part of a relation's weight that is left after each day."
    )
    prune_node_threshold: float = Field(
        default=0.1, ge=0, le=1, description="Confidence below which graph_prune takes entities, unless the call says."
    )
    prune_edge_threshold: float = Field(
        default=0.05, ge=0, le=1, description="Weight below which graph_prune takes relations, unless the call says."
    )
    prune_orphan_days: int = Field(
        default=30, ge=0, le=36500, description="Days unseen after which graph_prune takes entities without relations."
    )

    @field_validator("decay_rates")
    @classmethod
    def _rates_are_rates(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for entry in given:
            match = _RATE.match(entry)
            if match is None or not 0 < float(match["rate"]) <= 1:
                raise ValueError(f"{entry!r} is not of the form Person=0.998 with a rate above 0 and at most 1")
        return given

    @cached_property
    def rates(self) -> dict[str, float]:
        """The rates of ``decay_rates`` by type."""
        pairs = (entry.split("=", 1) for entry in self.decay_rates)
        return {name.strip(): float(rate) for name, rate in pairs}


class IngestSettings(_Room):
    """Documents and transcripts that people send."""

    ingest_file_bytes: int = Field(default=64 * 1024 * 1024, ge=1024, description="Largest file, bytes.")
    quota_file_bytes: int = Field(default=5 * 1024**3, ge=1024, description="Bytes of all files of one tenant.")
    quota_files: int = Field(default=20_000, ge=1, description="Files of one tenant.")
    ingest_directories: CommaList = Field(
        default=(),
        description="Folders on this machine from which operators may queue files by `file_path`. Default: none.",
    )
    upload_seconds: float = Field(default=600, gt=0, description="Longest time that one upload may take, seconds.")
    concurrent_uploads: int = Field(default=4, ge=1, description="Uploads of one tenant under way at once.")
    upload_days: float = Field(default=7, gt=0, description="Days that an upload is kept after its last byte.")
    convert_seconds: float = Field(default=120, gt=0, description="Longest conversion of one document, seconds.")
    convert_megabytes: int = Field(default=2048, ge=512, description="Address space of the converter, MiB.")
    claim_seconds: float = Field(
        default=1800, gt=0, description="Seconds for which a run has what it claimed to itself."
    )


class EmbeddingSettings(_Room):
    """The embedding model."""

    embedding: str = Field(
        default="BAAI/bge-small-en-v1.5",
        validation_alias=_names("GRAPHKEEP_EMBEDDING", "GRAPH_MCP_EMBED_BASE_URL", "EMBED_BASE_URL"),
        description="fastembed model name, a local model folder, `offline` (the packaged MiniLM), the http(s) address "
        "of an OpenAI-compatible endpoint, or `none`.",
    )
    embedding_model: str | None = Field(
        default=None,
        validation_alias=_names("GRAPHKEEP_EMBEDDING_MODEL", "GRAPH_MCP_EMBED_MODEL"),
        description="Model name to ask an endpoint for.",
    )
    embedding_key: SecretStr | None = Field(default=None, description="Key of the endpoint.")
    embedding_queue: int = Field(default=256, ge=1, description="Texts that may wait to be embedded.")
    embedding_seconds: float = Field(
        default=20, gt=0, description="Longest wait for the vector of a query, seconds, within the call's deadline."
    )


@dataclass(eq=False, kw_only=True)
class Settings:
    """All rooms' settings, read from the environment once."""

    run: RunSettings = field(default_factory=RunSettings)
    edge: EdgeSettings = field(default_factory=EdgeSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    oauth: OAuthSettings = field(default_factory=OAuthSettings)
    signin: SignInSettings = field(default_factory=SignInSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    ingest: IngestSettings = field(default_factory=IngestSettings)

    def having(self, *, run: RunSettings | None = None, store: StoreSettings | None = None) -> Settings:
        """The same settings but for the rooms that are given."""
        return replace(self, run=run or self.run, store=store or self.store)

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """Public base addresses without a trailing slash, the preferred one first."""
        if self.edge.public_urls:
            return tuple(url.rstrip("/") for url in self.edge.public_urls)
        return (f"https://localhost:{self.run.https_port}", f"http://localhost:{self.run.http_port}")
