"""Statements of the ingest queue. ``$sender``: the subject whose items alone are looked at, or null for all.

What was cancelled leaves a record that only says so: its state is ``cancelled``, and nothing of what it held is kept.
"""

from __future__ import annotations

from app.store.statement import statement

__all__ = [
    "ACCEPT",
    "ACCEPTED",
    "CHANGE",
    "CLAIM",
    "CLAIMED_OUT",
    "CLAIM_CONVERSION",
    "COMPLETED",
    "CURSORS",
    "FAILED",
    "FIND",
    "FORGET_CANCELLED",
    "GIVEN_UP",
    "KNOWN",
    "NEWEST",
    "PENDING",
    "READ_BEFORE",
    "REMOVE",
    "SUMMARY",
    "TAKE",
    "TENANT_OF",
    "TRANSCRIPTS",
    "USAGE",
    "VERSIONS",
]

ACCEPT = statement(
    "queue.accept",
    """
    MERGE (i:_IngestItem {key: $key})
    ON CREATE SET i += $record, i.fresh = true
    WITH i, i.fresh IS NOT NULL AS fresh
    REMOVE i.fresh
    RETURN properties(i) AS item, fresh
    """,
    writes=True,
    control=True,
)
ACCEPTED = statement(
    "queue.accepted",
    """
    MATCH (i:_IngestItem {key: $key})
    SET i.locked = true
    WITH i WHERE i.locked
    REMOVE i.locked
    RETURN properties(i) AS item
    """,
    writes=True,
    control=True,
)
USAGE = statement(
    "queue.usage",
    """
    MATCH (i:_IngestItem {tenant: $of}) WHERE i.state <> 'cancelled'
    RETURN count(i) AS files, sum(CASE WHEN i.stored THEN i.size ELSE 0 END + coalesce(i.text_size, 0)) AS size
    """,
    control=True,
)
SUMMARY = statement(
    "queue.summary",
    """
    MATCH (i:_IngestItem {tenant: $of}) WHERE i.layer IN $readable AND i.subject = coalesce($sender, i.subject)
    RETURN i.kind AS kind, i.state AS state, count(*) AS many,
           count(CASE WHEN i.state IN ['pending', 'claimed'] AND i.facts CONTAINS $unknown_form THEN 1 END) AS strange
    """,
    control=True,
)
# What a run has completed of the same transcript by the same sender before is where the next one goes on: what somebody
# else sends under its name hides nothing of it.
PENDING = statement(
    "queue.pending",
    """
    MATCH (i:_IngestItem {tenant: $of})
    WHERE i.layer IN $readable AND i.state IN ['received', 'converting', 'pending', 'claimed']
      AND i.subject = coalesce($sender, i.subject)
      AND (i.created_at > $at OR (i.created_at = $at AND i.id > $id))
    WITH i ORDER BY i.created_at, i.id LIMIT $limit
    RETURN properties(i) AS item,
           COLLECT { MATCH (d:_IngestItem {tenant: $of, name: i.name})
                     WHERE i.kind = 'transcript' AND d.layer = i.layer AND d.state = 'completed'
                       AND d.subject = i.subject
                     RETURN d.last_at ORDER BY d.created_at DESC, d.id LIMIT 1 }[0] AS since
    ORDER BY i.created_at, i.id
    """,
    control=True,
)
READ_BEFORE = statement(
    "queue.read_before",
    """
    UNWIND $ids AS id
    MATCH (i:_IngestItem {id: id, tenant: $of}) WHERE i.layer IN $readable
    MATCH (d:_IngestItem {tenant: $of, name: i.name, kind: 'transcript', state: 'completed'})
    WHERE d.layer = i.layer AND d.subject = i.subject AND d.id <> i.id AND d.last_at IS NOT NULL
    WITH i, d ORDER BY d.created_at DESC, d.id
    RETURN i.id AS id, collect(d.last_at)[0] AS since
    """,
    control=True,
)
COMPLETED = statement(
    "queue.completed",
    """
    MATCH (i:_IngestItem {tenant: $of, state: 'completed'})
    WHERE i.layer IN $readable AND i.subject = coalesce($sender, i.subject)
    RETURN properties(i) AS item ORDER BY i.completed_at DESC, i.id LIMIT $limit
    """,
    control=True,
)
FAILED = statement(
    "queue.failed",
    """
    MATCH (i:_IngestItem {tenant: $of, state: 'failed'})
    WHERE i.layer IN $readable AND i.subject = coalesce($sender, i.subject)
    RETURN properties(i) AS item ORDER BY i.updated_at DESC, i.id LIMIT $limit
    """,
    control=True,
)
CURSORS = statement(
    "queue.cursors",
    """
    MATCH (i:_IngestItem {tenant: $of})
    WHERE i.layer IN $readable AND i.subject = $sender
      AND i.source = $source AND NOT i.state IN ['failed', 'cancelled']
      AND i.session_id IS NOT NULL AND i.through_at IS NOT NULL AND ($session IS NULL OR i.session_id = $session)
    WITH i ORDER BY i.through_at DESC, i.id
    WITH i.session_id AS session, collect(i)[0] AS newest
    RETURN session, newest.through AS through, newest.last_event_id AS last_event_id, newest.name AS file
    ORDER BY newest.through_at DESC, session LIMIT $limit
    """,
    control=True,
)
FIND = statement(
    "queue.find",
    """
    MATCH (i:_IngestItem {id: $id, tenant: $of}) WHERE i.layer IN $readable AND i.state <> 'cancelled'
    RETURN properties(i) AS item
    """,
    control=True,
)
NEWEST = statement(
    "queue.newest",
    """
    MATCH (i:_IngestItem {tenant: $of, name: $name})
    WHERE i.layer IN $readable AND (i.stored OR ($cancelled AND i.state = 'cancelled'))
      AND i.subject = coalesce($sender, i.subject)
    RETURN properties(i) AS item ORDER BY i.subject <> $first, i.created_at DESC, i.id LIMIT 1
    """,
    control=True,
)
TRANSCRIPTS = statement(
    "queue.transcripts",
    """
    MATCH (i:_IngestItem {tenant: $of, name: $name, kind: 'transcript', stored: true})
    WHERE i.layer IN $readable
    WITH i ORDER BY i.created_at DESC, i.id
    WITH i.layer AS layer, i.subject AS subject, collect(i)[0] AS newest
    RETURN properties(newest) AS item
    ORDER BY newest.subject <> $first, newest.created_at DESC, newest.id LIMIT $limit
    """,
    control=True,
)
VERSIONS = statement(
    "queue.versions",
    """
    MATCH (i:_IngestItem {tenant: $of, name: $name, layer: $layer_of, kind: 'transcript', stored: true})
    WHERE i.subject = coalesce($sender, i.subject)
    RETURN properties(i) AS item ORDER BY i.created_at, i.id
    """,
    control=True,
)
KNOWN = statement(
    "queue.known",
    "MATCH (i:_IngestItem) WHERE i.id IN $ids AND i.state <> 'cancelled' RETURN i.id AS id",
    control=True,
)
TAKE = statement(
    "queue.take",
    """
    MATCH (i:_IngestItem {id: $id, tenant: $of}) WHERE i.layer IN $writable
    SET i.locked = true
    WITH i WHERE i.locked
    REMOVE i.locked
    WITH i WHERE i.state <> 'cancelled'
    RETURN properties(i) AS item
    """,
    writes=True,
    control=True,
)
CHANGE = statement(
    "queue.change",
    "MATCH (i:_IngestItem {id: $id}) SET i += $changes",
    writes=True,
    control=True,
)
REMOVE = statement(
    "queue.remove",
    "MATCH (i:_IngestItem {id: $id}) DELETE i",
    writes=True,
    control=True,
)
FORGET_CANCELLED = statement(
    "queue.forget_cancelled",
    """
    MATCH (i:_IngestItem {tenant: $of, state: 'cancelled'})
    WITH i ORDER BY i.updated_at DESC, i.id SKIP $keep
    DELETE i
    """,
    writes=True,
    control=True,
)
# The write lock is taken before the state is read again: of two replicas exactly one gets the item.
CLAIM = statement(
    "queue.claim",
    """
    MATCH (i:_IngestItem {tenant: $of})
    WHERE i.layer IN $writable AND ($id IS NULL OR i.id = $id)
      AND (i.state = 'pending' OR (i.state = 'claimed' AND i.due <= $now))
    WITH i ORDER BY i.created_at, i.id LIMIT $limit
    SET i.locked = true
    WITH i WHERE i.locked
    REMOVE i.locked
    WITH i WHERE i.state = 'pending' OR (i.state = 'claimed' AND i.due <= $now)
    SET i.state = 'claimed', i.claims = i.claims + 1, i.lease = $lease, i.due = $until, i.updated_at = $now
    RETURN properties(i) AS item ORDER BY i.created_at, i.id
    """,
    writes=True,
    control=True,
)
# The tenants take turns, in the order of their ids: $after is the one that was served last. What belongs to a tenant
# that is moved, suspended or deleted waits: a converter would bring back files that are being put away.
CLAIM_CONVERSION = statement(
    "queue.claim_conversion",
    """
    MATCH (i:_IngestItem) WHERE i.state IN ['received', 'converting'] AND i.due <= $now
      AND NOT EXISTS { MATCH (t:_Tenant {data: i.tenant}) WHERE t.state <> 'active' }
    WITH i ORDER BY i.tenant <= $after, i.tenant, i.due, i.id LIMIT 1
    SET i.locked = true
    WITH i WHERE i.locked
    REMOVE i.locked
    WITH i WHERE i.state IN ['received', 'converting'] AND i.due <= $now
    SET i.state = 'converting', i.attempts = i.attempts + 1, i.lease = $lease, i.due = $until, i.updated_at = $now
    RETURN properties(i) AS item
    """,
    writes=True,
    control=True,
)
GIVEN_UP = statement(
    "queue.give_up",
    """
    MATCH (i:_IngestItem {tenant: $of, state: 'claimed'}) WHERE i.due <= $now AND i.claims >= $claims
    WITH i ORDER BY i.id LIMIT 100
    SET i.locked = true
    WITH i WHERE i.locked
    REMOVE i.locked
    WITH i WHERE i.state = 'claimed' AND i.due <= $now
    SET i.state = 'failed', i.reason = $reason, i.lease = null, i.updated_at = $now
    RETURN i.id AS id
    """,
    writes=True,
    control=True,
)
TENANT_OF = statement("queue.tenant_of", "OPTIONAL MATCH (t:_Tenant {data: $of}) RETURN t.id AS id", control=True)
# Whose items give_up has to look at; the worker asks this, a call knows it.
CLAIMED_OUT = statement(
    "queue.claimed_out",
    """
    MATCH (i:_IngestItem {state: 'claimed'}) WHERE i.due <= $now AND i.claims >= $claims
    RETURN DISTINCT i.tenant AS tenant ORDER BY tenant LIMIT 1000
    """,
    control=True,
)
