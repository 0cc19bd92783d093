"""Who may see and do what in the console: one rule for every page and every form (:func:`judge`).

A tenant that a person does not belong to answers as one that does not exist: an owner learns nothing about others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from app.context import Role
from app.errors import Forbidden, NotFound
from app.oauth.service import Place
from app.store.control.tenants import TenantState
from app.store.control.users import User

__all__ = ["Right", "Standing", "judge", "judge_over_operators", "may"]


class Right(Enum):
    """What a page demands of the person before it."""

    SELF = auto()
    """Whoever is signed in, about themselves."""
    MEMBER = auto()
    """A member, of whatever role, of the tenant that the page is about."""
    OWNER = auto()
    """An owner of the tenant that the page is about."""
    OPERATOR = auto()
    """A member of the operators' tenant; to change something, one who is no reader there."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A person, and what they are in each tenant that was not deleted, suspended ones included."""

    user: User
    places: tuple[Place, ...]

    @property
    def operator(self) -> Place | None:
        """Their place among the operators, None for everybody else."""
        return next((place for place in self.places if place.tenant.admin), None)

    @property
    def owned(self) -> tuple[Place, ...]:
        """Tenants whose pages for owners they can open."""
        return tuple(place for place in self.places if may(self, Right.OWNER, place.tenant.id))

    def place(self, tenant_id: str) -> Place | None:
        """What they are in the tenant with this control id."""
        return next((place for place in self.places if place.tenant.id == tenant_id), None)


def judge(standing: Standing, right: Right, tenant_id: str = "", *, changes: bool = False) -> Place | None:
    """Let the person pass, or say why not. The answer is the place by which they may: None for :attr:`Right.SELF`.

    Raises:
        NotFound: they do not belong to the tenant, or it does not exist; the same words for both.
        Forbidden: they belong to it, and their role does not reach this far, or the tenant is suspended.
    """
    if right is Right.SELF:
        return None
    if right is Right.OPERATOR:
        return _operator(standing, changes=changes)
    place = standing.place(tenant_id)
    if place is None:
        raise NotFound("There is no such tenant, or you do not belong to it. Nothing was changed.")
    if place.tenant.state is TenantState.SUSPENDED:
        raise Forbidden(
            f"The tenant {place.tenant.name} is suspended; an operator of this gateway can resume it. "
            "Nothing was changed."
        )
    if right is Right.OWNER and place.role is not Role.OWNER:
        raise Forbidden(
            f"This is for owners of {place.tenant.name}; you are {place.role.value} there. Nothing was changed."
        )
    return place


def judge_over_operators(standing: Standing) -> None:
    """Let pass who may make operators, or sign in as one: an owner among them, so that nobody there raises themselves.

    Raises:
        Forbidden: the person is none.
    """
    place = standing.operator
    if place is None or place.role is not Role.OWNER:
        raise Forbidden("This concerns the operators themselves and is for an owner among them. Nothing was changed.")


def may(standing: Standing, right: Right, tenant_id: str = "", *, changes: bool = False) -> bool:
    """Whether :func:`judge` lets the person pass: what menus show."""
    try:
        judge(standing, right, tenant_id, changes=changes)
    except (NotFound, Forbidden):
        return False
    return True


def _operator(standing: Standing, *, changes: bool) -> Place:
    place = standing.operator
    if place is None:
        raise Forbidden("This is for the operators of this gateway. Nothing was changed.")
    if changes and place.role is Role.READER:
        raise Forbidden("You are a reader among the operators: you can look, and change nothing. Nothing was changed.")
    return place
