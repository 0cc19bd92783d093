"""Exact images of records: what a change is made of, and what it is undone by.

An image holds all of one record: labels, every property (vectors and search fields too) and which of them are moments.
Images are read only in layers that the session may write, and what is read stays locked until the transaction ends.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from app.errors import Conflict
from app.store.session import Writing
from app.store.statement import statement

__all__ = ["MOST_RECORDS", "Asked", "Image", "Images", "Key", "marks", "read_images", "spelt", "write_images"]

Key = tuple[str, ...]
"""("entity", layer, id), ("alias", layer, id) or ("relation", layer, source, relation, target)."""

Image = dict[str, Any]

MOST_RECORDS: Final = 20_000
"""Relations or aliases of one change; more are refused before anything is applied."""

_ENTITY, _ALIAS, _RELATION = "entity", "alias", "relation"
_PARTITION: Final = ("tenant", "layer")
_FADED: Final = "decay_state"
_DAY: Final = 86_400


def _image(name: str) -> str:
    """The properties of a record as pairs, moments as text, and which those are."""
    return f"""properties: [k IN keys({name}) WHERE NOT k IN ['tenant', 'layer']
        | [k, CASE WHEN {name}[k] IS :: ZONED DATETIME THEN toString({name}[k]) ELSE {name}[k] END]],
        moments: [k IN keys({name}) WHERE {name}[k] IS :: ZONED DATETIME]"""


# REMOVE of a property that no entity has (the index over aliases makes its key known, without which nothing is done)
# takes a copy's lock before it is read, in the order of ids, and writes nothing. SET of a property to itself is no such
# lock: it is read before, and what another call committed meanwhile is lost. Every writer of a relation takes the locks
# of both ends first, so that no relation comes or goes between two images. Both ends of a triple are found before what
# lies between them (DISTINCT keeps the planner to that): from a hub's side all its relations would be looked at for
# each triple.
READ_IMAGES: Final = statement(
    "graph.read_images",
    f"""
    CALL {{
      UNWIND $beside AS id
      MATCH (e:Entity {{tenant: $tenant, id: id}}) WHERE e.layer IN $writable
      WITH e ORDER BY e.id, e.layer
      REMOVE e.target
      RETURN collect([e.layer, e.id]) AS standing
    }}
    CALL {{
      UNWIND $ids AS id
      MATCH (e:Entity {{tenant: $tenant, id: id}}) WHERE e.layer IN $writable
      WITH e ORDER BY e.id, e.layer
      REMOVE e.target
      WITH e
      RETURN collect({{layer: e.layer, id: e.id, labels: labels(e), {_image("e")}}}) AS entities
    }}
    CALL {{
      UNWIND $ids AS id
      MATCH (x:Alias {{tenant: $tenant, id: id}}) USING INDEX x:Alias(tenant, layer, id) WHERE x.layer IN $writable
      RETURN collect({{layer: x.layer, id: x.id, labels: labels(x), {_image("x")}}}) AS named
    }}
    CALL {{
      UNWIND $ids AS id
      MATCH (x:Alias {{tenant: $tenant, target: id}}) USING INDEX x:Alias(tenant, layer, target)
      WHERE x.layer IN $writable
      WITH x LIMIT $most
      RETURN collect({{layer: x.layer, id: x.id, labels: labels(x), {_image("x")}}}) AS leading
    }}
    CALL {{
      UNWIND $around AS id
      MATCH (e:Entity {{tenant: $tenant, id: id}}) WHERE e.layer IN $writable
      MATCH (e)-[r]-(o:Entity {{tenant: $tenant, layer: e.layer}})
      WITH DISTINCT r LIMIT $most
      RETURN collect({{layer: r.layer, source: startNode(r).id, relation: type(r), target: endNode(r).id,
        {_image("r")}}}) AS surrounding
    }}
    CALL {{
      UNWIND $triples AS t
      MATCH (a:Entity {{tenant: $tenant, id: t[0]}}) WHERE a.layer IN $writable
      MATCH (b:Entity {{tenant: $tenant, layer: a.layer, id: t[2]}})
      WITH DISTINCT a, b, t
      MATCH (a)-[r]->(b) WHERE type(r) = t[1]
      WITH DISTINCT r LIMIT $most
      RETURN collect({{layer: r.layer, source: startNode(r).id, relation: type(r), target: endNode(r).id,
        {_image("r")}}}) AS between
    }}
    RETURN standing, entities, named, leading, surrounding, between
    """,
    writes=True,
    touches=("ids", "beside", "triples.0", "triples.2"),
)

WRITE_IMAGES: Final = statement(
    "graph.write_images",
    """
    CALL {
      UNWIND $parted AS row
      MATCH (a:Entity {tenant: $tenant, layer: $layer, id: row.source})
      MATCH (b:Entity {tenant: $tenant, layer: $layer, id: row.target})
      WITH DISTINCT a, b, row.relation AS relation
      MATCH (a)-[r]->(b) WHERE type(r) = relation
      DELETE r
    }
    CALL {
      UNWIND $forgotten AS id
      MATCH (x:Alias {tenant: $tenant, layer: $layer, id: id})
      DELETE x
    }
    CALL {
      UNWIND $removed AS id
      MATCH (n:Entity {tenant: $tenant, layer: $layer, id: id})
      DELETE n
    }
    CALL {
      UNWIND $entities AS row
      MERGE (n:Entity {tenant: $tenant, layer: $layer, id: row.id})
      SET n += row.fields
      REMOVE n:$(row.unlabelled)
      SET n:$(row.labels)
      WITH n, row
      UNWIND row.moments AS pair
      SET n[pair[0]] = datetime(pair[1])
    }
    CALL {
      UNWIND $aliases AS row
      MERGE (x:Alias {tenant: $tenant, layer: $layer, id: row.id})
      SET x += row.fields
      WITH x, row
      UNWIND row.moments AS pair
      SET x[pair[0]] = datetime(pair[1])
    }
    CALL {
      UNWIND $created AS row
      MATCH (a:Entity {tenant: $tenant, layer: $layer, id: row.source}),
            (b:Entity {tenant: $tenant, layer: $layer, id: row.target})
      CREATE (a)-[r:$(row.relation)]->(b)
      SET r = row.fields
      SET r.tenant = $tenant, r.layer = $layer
      WITH r, row
      UNWIND row.moments AS pair
      SET r[pair[0]] = datetime(pair[1])
    }
    RETURN true AS done
    """,
    writes=True,
    touches=("removed", "entities.id", "parted.source", "parted.target", "created.source", "created.target"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which records a change may touch.

    ``ids``: entities and aliases of these ids, and aliases that lead to them; ``around``: also every relation of these
    entities; ``triples``: also these relations (source, relation, target). ``beside``: entities that are only locked,
    and whose copies are told.
    """

    ids: tuple[str, ...]
    around: tuple[str, ...] = ()
    triples: tuple[tuple[str, str, str], ...] = ()
    beside: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        ids: Iterable[str],
        around: Iterable[str] = (),
        triples: Iterable[tuple[str, str, str]] = (),
        beside: Iterable[str] = (),
    ) -> Asked:
        """The same from any collections; what is ``around`` is an id too."""
        centres = tuple(sorted(set(around)))
        whole = {*ids, *centres}
        return cls(tuple(sorted(whole)), centres, tuple(sorted(set(triples))), tuple(sorted(set(beside) - whole)))


@dataclass(frozen=True, slots=True)
class Images:
    """What there was of the records that were asked for."""

    asked: Asked
    records: Mapping[Key, Image]
    standing: frozenset[tuple[str, str]]
    """(layer, id) of the copies of all entities that were asked for."""


async def read_images(writing: Writing, asked: Asked) -> Images:
    """Lock and read: one round trip.

    Raises:
        Conflict: more relations or aliases than a change may touch.
    """
    rows = await writing.run(
        READ_IMAGES,
        ids=asked.ids,
        around=asked.around,
        triples=asked.triples,
        beside=asked.beside,
        most=MOST_RECORDS + 1,
    )
    row = rows[0]
    if max(len(row["leading"]), len(row["surrounding"]), len(row["between"])) > MOST_RECORDS:
        raise Conflict(
            f"this touches more than {MOST_RECORDS} relations, too many for one change that can be undone; "
            "do it in smaller parts. Nothing was applied."
        )
    records: dict[Key, Image] = {(_ENTITY, found["layer"], found["id"]): _node(found) for found in row["entities"]}
    for found in [*row["named"], *row["leading"]]:
        records[_ALIAS, found["layer"], found["id"]] = _node(found)
    standing = {(layer, id_) for layer, id_ in row["standing"]}
    standing |= {(key[1], key[2]) for key in records if key[0] == _ENTITY}
    return Images(asked, {**records, **_grouped(row["between"]), **_grouped(row["surrounding"])}, frozenset(standing))


async def write_images(writing: Writing, before: Mapping[Key, Image | None], present: Mapping[Key, Image]) -> None:
    """Make every record of ``before`` what its image says (None: it goes); ``present`` is what there is now."""
    for layer in sorted({key[1] for key in before}):
        part = {key: image for key, image in before.items() if key[1] == layer}
        relations = {key[2:]: image for key, image in part.items() if key[0] == _RELATION}
        await writing.into(layer).run(
            WRITE_IMAGES,
            parted=[dict(zip(("source", "relation", "target"), key, strict=True)) for key in relations],
            forgotten=[key[2] for key, image in part.items() if key[0] == _ALIAS and image is None],
            removed=[key[2] for key, image in part.items() if key[0] == _ENTITY and image is None],
            entities=[_node_row(key, image, present) for key, image in part.items() if key[0] == _ENTITY and image],
            aliases=[_node_row(key, image, present) for key, image in part.items() if key[0] == _ALIAS and image],
            created=[
                {"source": key[0], "relation": key[1], "target": key[2], **_values(copy)}
                for key, image in relations.items()
                for copy in (image["copies"] if image else ())
            ],
        )


def marks(image: Image) -> dict[str, str]:
    """A short hash of each part of an image, by the part's name; what fades only has the same one before and after.

    Fading is a function of the time that went by (``app.memory.fading``): a record put back as it was fades to where it
    belongs with the next run, so that a run in between is no change.
    """
    parts: dict[str, Any] = {}
    if "labels" in image:
        parts = {"labels": image["labels"], **_unfaded(image["properties"], "confidence", "last_seen")}
    for number, copy in enumerate(image.get("copies", ())):
        where = f"{number}." if len(image["copies"]) > 1 else ""
        held = _unfaded(copy["properties"], "weight", "last_confirmed")
        parts |= {f"{where}{name}": value for name, value in held.items()}
    return {name: hashlib.sha256(orjson.dumps(value)).hexdigest()[:16] for name, value in parts.items()}


def _unfaded(properties: Mapping[str, Any], held: str, clock: str) -> dict[str, Any]:
    """The properties with, for ``held``, what it fades from: a value, and since when (seconds since 1970)."""
    parts = {name: value for name, value in properties.items() if name != _FADED}
    if properties.get(held) is None or not isinstance(properties.get(clock), str):
        return parts
    value, seen, state = float(properties[held]), _seconds(properties[clock]), properties.get(_FADED)
    if state is None or seen > state[1]:
        base, since = value, seen
    elif value == state[3]:
        base, since = state[0], state[1]
    else:
        base, since = value, state[1] + _DAY * state[2]
    return {**parts, held: base if since == seen else [base, since]}


def _seconds(moment: str) -> float:
    return float(math.floor(datetime.fromisoformat(moment.partition("[")[0]).timestamp()))


def spelt(key: Key) -> str:
    """A record as people read it."""
    if key[0] == _RELATION:
        return f"relation {key[2]}→{key[3]}→{key[4]}"
    return f"{key[0]} {key[2]!r}"


def _node(found: Mapping[str, Any]) -> Image:
    return {"labels": sorted(found["labels"]), **_copy(found)}


def _copy(found: Mapping[str, Any]) -> Image:
    return {"properties": dict(sorted(found["properties"])), "moments": sorted(found["moments"])}


def _grouped(rows: Iterable[Mapping[str, Any]]) -> dict[Key, Image]:
    groups: dict[Key, list[Image]] = {}
    for found in rows:
        key = (_RELATION, found["layer"], found["source"], found["relation"], found["target"])
        groups.setdefault(key, []).append(_copy(found))
    return {key: {"copies": sorted(copies, key=orjson.dumps)} for key, copies in groups.items()}


def _node_row(key: Key, image: Image, present: Mapping[Key, Image]) -> dict[str, Any]:
    now = present.get(key)
    kept = image["properties"]
    lost: Sequence[str] = [name for name in now["properties"] if name not in kept] if now else ()
    values = _values(image)
    return {
        "id": key[2],
        "fields": {**dict.fromkeys(lost), **values["fields"]},
        "moments": values["moments"],
        "labels": image["labels"],
        "unlabelled": [label for label in now["labels"] if label not in image["labels"]] if now else [],
    }


def _values(image: Image) -> dict[str, Any]:
    properties = {name: value for name, value in image["properties"].items() if name not in _PARTITION}
    moments = [[name, properties.pop(name)] for name in image["moments"]]
    return {"fields": properties, "moments": moments}
