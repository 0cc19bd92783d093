"""Moments and events in words. Pages say relative times where they help, and the exact ones to machines."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from app.counting import counted

__all__ = ["ACTIONS", "action_in_words", "browser_in_words", "moment"]

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
RELATIVE: Final = 14 * DAY
"""Beyond this a date says more than a number of days."""

ACTIONS: Final = {
    "audit.search": "Audit read by an operator",
    "client.add": "Program added by an operator",
    "client.remove": "Program removed",
    "client.restore": "Program restored",
    "consent.allow": "Program connected",
    "consent.refuse": "Connection refused",
    "doctor.sign_in": "Signed in by the doctor",
    "grant.change": "Connection changed",
    "grant.replace": "Connection replaced by a newer one",
    "grant.revoke": "Connection ended",
    "graph.cypher": "Memory read by an operator's query",
    "graph.reembed": "Vectors made anew by an operator",
    "identity.connect": "Provider connected to an account",
    "invitation.accept": "Invitation accepted",
    "invitation.make": "Invitation made",
    "invitation.withdraw": "Invitation withdrawn",
    "key.rotate": "Signing key rotated",
    "layer.add": "Layer added",
    "link.issue": "One-time sign-in link made",
    "memory.boost": "Relation strengthened",
    "memory.decay": "Memory faded",
    "memory.delete": "Entity deleted",
    "memory.merge": "Entities merged",
    "memory.prune": "What had faded forgotten",
    "memory.resolve": "Contradiction resolved",
    "memory.undo": "Change undone",
    "memory.unmerge": "Entity divided in two",
    "memory.weaken": "Relation weakened",
    "passkey.add": "Passkey added",
    "passkey.copied": "Passkey refused: there may be a copy of it",
    "passkey.remove": "Passkey removed",
    "passkey.rename": "Passkey renamed",
    "password.set": "Password set",
    "recovery_codes.make": "Recovery codes made",
    "run.abort": "Run of an agent given up",
    "run.begin": "Run of an agent begun",
    "run.finish": "Run of an agent finished",
    "service_account.create": "Service account made",
    "service_account.remove": "Service account removed",
    "service_account.renew": "Secret of a service account renewed",
    "service_account.token": "Token given to a service account",
    "service_account.token_revoke": "Token of a service account revoked",
    "session.end": "Browser signed out",
    "sign_in": "Signed in",
    "sign_in.refuse": "Sign-in refused",
    "sign_out.everywhere": "Signed out everywhere",
    "tenant.active": "Tenant resumed",
    "tenant.behaviour": "Behaviour changed",
    "tenant.create": "Tenant made",
    "tenant.deleted": "Tenant deleted",
    "tenant.erase": "Tenant erased",
    "tenant.import": "Memory imported",
    "tenant.limits": "Limits changed",
    "tenant.rename": "Tenant renamed",
    "tenant.restore": "Memory restored",
    "tenant.single_valued": "Single-valued relations changed",
    "tenant.suspended": "Tenant suspended",
    "token.create": "Token made",
    "token.revoke": "Token revoked",
    "user.disconnect": "All programs disconnected",
    "user.email": "E-mail address changed",
    "user.add": "Member added",
    "user.change": "Member changed",
    "user.remove": "Member removed",
}
"""What actions of the audit are called on pages; one that is not here shows as it is."""

_BROWSERS: Final = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS: Final = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "Mac"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def moment(seconds: float, *, now: float | None = None) -> Markup:
    """A ``time`` element for a moment in Unix seconds."""
    at = datetime.fromtimestamp(seconds, UTC)
    exact = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    shown = _relative(seconds - (time.time() if now is None else now)) or f"{at.day} {at:%b %Y}"
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(exact, shown)


def action_in_words(action: str) -> str:
    """What an action of the audit is called on pages."""
    return ACTIONS.get(action, action)


def browser_in_words(agent: str) -> str:
    """What browser on what system calls itself so; only a hint, as browsers say what they like."""
    browser = next((name for mark, name in _BROWSERS if mark in agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in agent), "")
    return " on ".join(word for word in (browser, system) if word) or "A browser"


def _relative(ahead: float) -> str:
    distance = abs(ahead)
    if distance >= RELATIVE:
        return ""
    if distance < MINUTE:
        return "just now" if ahead <= 0 else "in a moment"
    number, unit = next(
        (int(distance // size), unit)
        for size, unit in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"))
        if distance >= size
    )
    words = counted(number, unit)
    return f"in {words}" if ahead > 0 else f"{words} ago"
