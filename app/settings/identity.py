"""How clients and people are known."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from app.settings.room import CommaList, Room, either

__all__ = ["OAuthSettings", "SignInSettings"]


class OAuthSettings(Room):
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
        validation_alias=either("GRAPHKEEP_REDIRECT_HOSTS", "OAUTH_REDIRECT_URI_HOSTS"),
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
        validation_alias=either("GRAPHKEEP_ADMIN_TENANT", "BOOTSTRAP_TENANT_ID"),
        description="Name of the operators' tenant.",
    )


class SignInSettings(Room):
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
        validation_alias=either("GRAPHKEEP_ACCESS_TEAM_DOMAIN", "CF_ACCESS_TEAM_DOMAIN"),
        description="Cloudflare Access team, `myteam.cloudflareaccess.com`: its assertions sign people in. They count "
        "only from the Unix socket and GRAPHKEEP_TRUSTED_PROXIES.",
    )
    access_audience: str | None = Field(
        default=None,
        validation_alias=either("GRAPHKEEP_ACCESS_AUDIENCE", "CF_ACCESS_AUD"),
        description="Audience tag of the Access application.",
    )
    allowed_emails: CommaList = Field(
        default=(),
        validation_alias=either("GRAPHKEEP_ALLOWED_EMAILS", "OAUTH_ALLOWED_EMAILS"),
        description="Who may sign in by provider or Access: addresses, `*@domain`, or `*` for everyone whom it vouches "
        "for. Required with either; an entry that is none of these stops the start.",
    )
