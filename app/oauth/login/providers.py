"""The ways to sign in that stand on another party, as the settings name them."""

from __future__ import annotations

from typing import Final

from app.errors import StartError
from app.oauth.login.allowlist import AllowList
from app.oauth.login.cloudflare import CloudflareAccess
from app.oauth.login.upstream import Upstream
from app.oauth.login.vouching import is_private_way
from app.settings import SignInSettings

__all__ = ["Providers"]

BAD_CONFIGURATION: Final = 78  # EX_CONFIG


class Providers:
    """A provider, Cloudflare Access, or neither; and who may come by them.

    Raises:
        StartError: the settings are incomplete, or the list of addresses is missing or cannot be read.
    """

    def __init__(self, settings: SignInSettings) -> None:
        self.allowed = AllowList.of(settings.allowed_emails)
        self.upstream = _upstream(settings)
        self.access = _access(settings)
        if (self.upstream or self.access) and not self.allowed:
            raise _refused(
                "GRAPHKEEP_ALLOWED_EMAILS names nobody who may sign in by the provider; write addresses, `*@domain`, "
                "or `*` for everyone whom it vouches for"
            )


def _upstream(settings: SignInSettings) -> Upstream | None:
    issuer, client_id = settings.oidc_issuer, settings.oidc_client_id
    if issuer is None and client_id is None:
        return None
    if issuer is None or client_id is None:
        raise _refused("GRAPHKEEP_OIDC_ISSUER and GRAPHKEEP_OIDC_CLIENT_ID go together")
    if not is_private_way(issuer):
        raise _refused("GRAPHKEEP_OIDC_ISSUER must be an https:// address")
    secret = settings.oidc_client_secret
    return Upstream(
        issuer,
        client_id,
        None if secret is None else secret.get_secret_value(),
        label=settings.oidc_label,
        scopes=settings.oidc_scopes,
    )


def _access(settings: SignInSettings) -> CloudflareAccess | None:
    team, audience = settings.access_team_domain, settings.access_audience
    if team is None and audience is None:
        return None
    if team is None or audience is None:
        raise _refused("GRAPHKEEP_ACCESS_TEAM_DOMAIN and GRAPHKEEP_ACCESS_AUDIENCE go together")
    address = team.rstrip("/") if "://" in team else f"https://{team.rstrip('/')}"
    if not is_private_way(address):
        raise _refused("GRAPHKEEP_ACCESS_TEAM_DOMAIN must be a host such as myteam.cloudflareaccess.com")
    return CloudflareAccess(address, audience)


def _refused(problem: str) -> StartError:
    return StartError(f"{problem}. Nothing was started.", exit_code=BAD_CONFIGURATION)
