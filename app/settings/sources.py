"""What is sent, and the model that embeds it."""

from __future__ import annotations

from pydantic import Field, SecretStr

from app.settings.room import CommaList, Room, either

__all__ = ["EmbeddingSettings", "IngestSettings"]


class IngestSettings(Room):
    """Documents and transcripts that people send."""

    ingest_file_bytes: int = Field(default=64 * 1024 * 1024, ge=1024, description="Largest file, bytes.")
    ingest_transcript_bytes: int = Field(
        default=512 * 1024 * 1024, ge=1024, description="Largest transcript, bytes, where it comes in parts (tus)."
    )
    quota_file_bytes: int = Field(default=5 * 1024**3, ge=1024, description="Bytes of all files of one tenant.")
    quota_files: int = Field(default=20_000, ge=1, description="Files of one tenant.")
    ingest_directories: CommaList = Field(
        default=(),
        description="Folders on this machine from which operators may queue files by `file_path`. Default: none.",
    )
    ingest_urls: bool = Field(
        default=False,
        description="Whether whoever may send a file may have it fetched from a public https address (`url` of "
        "`graph_ingest`).",
    )
    ingest_url_hosts: CommaList = Field(
        default=(),
        description="Hosts (`host` or `host:port`) that are then fetched from although their address is not public or "
        "their port not 443. Default: none.",
    )
    upload_seconds: float = Field(default=600, gt=0, description="Longest time that one upload may take, seconds.")
    concurrent_uploads: int = Field(
        default=4, ge=1, description="Uploads of one tenant under way at once; one person may have half of them."
    )
    upload_days: float = Field(default=7, gt=0, description="Days that an upload is kept after its last byte.")
    convert_seconds: float = Field(default=120, gt=0, description="Longest conversion of one document, seconds.")
    convert_megabytes: int = Field(default=2048, ge=512, description="Address space of the converter, MiB.")
    claim_seconds: float = Field(
        default=1800, gt=0, description="Seconds for which a run has what it claimed to itself."
    )


class EmbeddingSettings(Room):
    """The embedding model."""

    embedding: str = Field(
        default="BAAI/bge-small-en-v1.5",
        validation_alias=either("GRAPHKEEP_EMBEDDING", "GRAPH_MCP_EMBED_BASE_URL", "EMBED_BASE_URL"),
        description="fastembed model name, a local model folder, `offline` (the packaged MiniLM), the http(s) address "
        "of an OpenAI-compatible endpoint, or `none`.",
    )
    embedding_model: str | None = Field(
        default=None,
        validation_alias=either("GRAPHKEEP_EMBEDDING_MODEL", "GRAPH_MCP_EMBED_MODEL"),
        description="Model name to ask an endpoint for.",
    )
    embedding_key: SecretStr | None = Field(default=None, description="Key of the endpoint.")
    embedding_queue: int = Field(default=256, ge=1, description="Texts that may wait to be embedded.")
    embedding_seconds: float = Field(
        default=20, gt=0, description="Longest wait for the vector of a query, seconds, within the call's deadline."
    )
