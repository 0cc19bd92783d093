"""The decision which embedding model a database's vectors are made by: one record, changed by a command alone."""

from __future__ import annotations

from dataclasses import dataclass

from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = ["EmbeddingDecision", "decide", "decide_anew", "decision", "decision_in"]

READ = statement(
    "embedding.read_decision",
    """
    MATCH (e:_Embedding {id: 'entity'})
    RETURN e.asked AS asked, e.model AS model, e.dimension AS dimension, e.recipe AS recipe
    """,
    control=True,
)
DECIDE = statement(
    "embedding.decide",
    """
    MERGE (e:_Embedding {id: 'entity'})
    ON CREATE SET e.asked = $asked, e.model = $model, e.dimension = $dimension, e.recipe = $recipe,
                  e.decided_at = datetime()
    RETURN e.asked AS asked, e.model AS model, e.dimension AS dimension, e.recipe AS recipe
    """,
    writes=True,
    control=True,
)
DECIDE_ANEW = statement(
    "embedding.decide_anew",
    """
    MERGE (e:_Embedding {id: 'entity'})
    SET e.asked = $asked, e.model = $model, e.dimension = $dimension, e.recipe = $recipe, e.decided_at = datetime()
    """,
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class EmbeddingDecision:
    """What was decided, and the setting (``asked``) that it was decided under."""

    asked: str
    model: str
    dimension: int
    recipe: str

    @property
    def key(self) -> str:
        """What records carry in ``embedding_of`` whose vectors were made so."""
        return f"{self.model}|{self.dimension}|{self.recipe}"


async def decision(control: ControlSession) -> EmbeddingDecision | None:
    """The decision, or None while there is none."""
    rows = await control.read(READ)
    return EmbeddingDecision(**rows[0]) if rows else None


async def decision_in(writing: Writing) -> EmbeddingDecision | None:
    """The decision as it stands while a control transaction goes on."""
    rows = await writing.run(READ)
    return EmbeddingDecision(**rows[0]) if rows else None


async def decide(control: ControlSession, wanted: EmbeddingDecision) -> EmbeddingDecision:
    """Record ``wanted`` unless a decision stands; either way the one that stands. Safe from two replicas."""

    async def work(writing: Writing) -> EmbeddingDecision:
        rows = await writing.run(
            DECIDE, asked=wanted.asked, model=wanted.model, dimension=wanted.dimension, recipe=wanted.recipe
        )
        return EmbeddingDecision(**rows[0])

    return await control.write(work)


async def decide_anew(control: ControlSession, wanted: EmbeddingDecision) -> None:
    """Record ``wanted`` whatever stands: what was embedded before is no longer compared with."""
    given = {"asked": wanted.asked, "model": wanted.model, "dimension": wanted.dimension, "recipe": wanted.recipe}
    await control.write(lambda writing: writing.run(DECIDE_ANEW, **given))
