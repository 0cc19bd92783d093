"""The published matrix: which tool is held in which cell, and which test holds which rule of the partition.

``python -m tests.isolation.matrix`` writes ``docs/ISOLATION.md``; a test compares it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.cli.toolsets import every_tool
from tests.isolation.recipes import CELLS, RECIPES

PAGE: Final = Path(__file__).parents[2] / "docs" / "ISOLATION.md"

_CELLS = "tests/isolation/test_cells.py::"
_RULES = "tests/isolation/test_rules.py::"
_FOREIGN = "tests/isolation/test_foreign_writes.py::"
_ACCESS = "tests/access/test_layers.py::"
_MEMORY = "tests/memory/test_layers.py::"
_TIMELINE = "tests/memory/test_timeline.py::"
_MOVING = "tests/memory/moving/"
_SESSION = "tests/store/test_session.py::"


@dataclass(frozen=True)
class Rule:
    """One rule, and the tests that hold it; or the tools that it waits for."""

    words: str
    tests: Sequence[str] = ()
    awaits: Sequence[str] = ()
    """Names of tools or toolsets that will meet this rule; once one of them exists the rule needs tests."""


RULES: Final[Mapping[int, Rule]] = {
    1: Rule(
        "A layer exists once an owner names it; tenant-wide is part of every read that was granted it.",
        (
            "tests/access/test_accounts.py::test_a_member_may_be_given_layers_which_then_exist",
            "tests/oauth/test_consent.py::test_an_owner_may_name_a_layer_which_then_exists",
            "tests/access/test_grants.py::test_a_member_cannot_take_a_layer_that_was_not_given",
            f"{_ACCESS}test_tenant_wide_is_part_of_every_read_that_was_granted_it",
        ),
    ),
    2: Rule(
        "A read drops what was not granted, an empty remainder is an empty answer; a write that names it is refused.",
        (
            f"{_ACCESS}test_a_read_never_reaches_a_layer_that_was_not_granted",
            f"{_ACCESS}test_a_read_of_nothing_that_was_granted_reads_nothing",
            f"{_ACCESS}test_a_write_never_reaches_a_layer_that_was_not_granted",
            f"{_CELLS}test_a_hidden_layer_is_refused_like_one_that_does_not_exist",
            f"{_SESSION}test_no_layers_read_nothing",
        ),
    ),
    3: Rule(
        "`*` stands for every layer, later ones too; what is taken away from a member ends their grants.",
        (
            f"{_ACCESS}test_every_layer_means_those_that_exist_and_no_other",
            "tests/access/test_verify.py::test_a_new_layer_of_the_tenant_reaches_a_token_that_is_already_known",
            "tests/access/test_verify.py::test_what_was_revoked_is_refused_and_nothing_else",
            "tests/access/test_accounts.py::test_removing_a_user_ends_their_tokens",
        ),
    ),
    4: Rule(
        "Siblings read as one entity: name and type tenant-wide first, properties from the first layer that has them.",
        (
            f"{_RULES}test_rule_4_copies_of_an_entity_read_as_one",
            f"{_CELLS}test_a_read_answers_as_if_nobody_else_were_there",
        ),
    ),
    5: Rule(
        "Copies of a relation read as one: current if a copy is, the heaviest of that state, evidence of all.",
        (
            f"{_RULES}test_rule_5_the_heaviest_copy_of_the_state_gives_validity_and_provenance",
            f"{_MEMORY}test_copies_of_a_relation_are_one_with_the_heaviest_copys_weight",
            f"{_MEMORY}test_a_relation_is_current_if_a_copy_is",
        ),
    ),
    6: Rule(
        "Limits, counts, degrees and cursors count merged records; every order ends in the id.",
        (f"{_RULES}test_rule_6_pages_hold_merged_records_and_lose_none", f"{_MEMORY}test_limits_count_merged_records"),
    ),
    7: Rule(
        "An asserting write goes into one layer and looks names up there and tenant-wide only.",
        (
            f"{_RULES}test_rule_7_names_are_looked_up_in_the_write_layer_and_tenant_wide_alone",
            f"{_ACCESS}test_a_write_that_names_a_layer_changes_nothing_elsewhere",
            f"{_CELLS}test_a_write_answers_as_if_nobody_else_were_there_and_touches_nothing_else",
        ),
    ),
    8: Rule(
        "A light sibling holds id, name, type and search fields, named as tenant-wide or the layer names it.",
        (f"{_MEMORY}test_a_sibling_takes_name_and_type_from_tenant_wide_and_is_not_new",),
    ),
    9: Rule(
        "Copies in unreadable layers are never read, counted or touched, nor a reason for refusal.",
        (
            f"{_CELLS}test_a_write_answers_as_if_nobody_else_were_there_and_touches_nothing_else",
            f"{_ACCESS}test_a_write_that_names_no_layer_judges_on_all_readable_ones",
            "tests/memory/changing/test_adjust.py::test_each_copy_that_may_be_written_moves_and_the_merged_weight_is_told",
            "tests/memory/removing/test_prune.py::test_the_merged_record_is_judged_and_only_writable_copies_go",
            "tests/memory/fading/test_decay.py::test_each_copy_fades_by_its_own_clock_and_only_where_it_may_be_written",
        ),
    ),
    10: Rule(
        "Supersession acts inside the write layer, in the order of validity, under the source's lock.",
        (
            f"{_MEMORY}test_supersession_stays_inside_the_write_layer",
            f"{_TIMELINE}test_without_a_moment_nothing_ends",
            f"{_TIMELINE}test_a_relation_without_a_moment_is_the_older_one",
            f"{_TIMELINE}test_at_the_same_moment_the_later_word_counts",
            f"{_TIMELINE}test_supersede_ends_others_even_without_a_moment_and_false_never_does",
        ),
    ),
    11: Rule(
        "Merging moves all that hangs on the writable copies; deleting keeps what anything else backs.",
        (
            "tests/memory/merging/test_merge.py::test_copies_move_in_each_layer_and_unreadable_ones_stay_as_they_are",
            "tests/memory/merging/test_merge.py::test_what_something_else_hangs_on_is_not_merged_away",
            "tests/memory/removing/test_delete.py::test_what_anything_else_needs_stays_without_the_memorys_relations",
            "tests/memory/removing/test_delete.py::test_an_entity_goes_with_all_its_relations_and_what_was_searched_of_them",
        ),
    ),
    12: Rule(
        "A relation asserted again keeps its past.",
        (
            f"{_TIMELINE}test_asserting_an_ended_relation_again_makes_it_current_and_keeps_its_past",
            f"{_TIMELINE}test_past_is_bounded",
        ),
    ),
    13: Rule(
        "One relation of a type between two copies, whoever writes at once.",
        (
            "tests/memory/test_concurrency.py::test_writers_in_any_order_make_no_duplicate_and_surface_no_deadlock",
            "tests/store/test_integrity.py::test_what_breaks_an_invariant_is_found_without_naming_the_tenant",
        ),
    ),
    14: Rule("Copies of a fact have one handle.", awaits=("ledger",)),
    15: Rule("A layered write makes no tenant-wide class or property.", awaits=("ledger",)),
    16: Rule("Closure stands and counts every current relation of the partition.", awaits=("ledger",)),
    17: Rule("A collection lies in one layer.", awaits=("knowledge",)),
    18: Rule(
        "Uploads, transcripts, exports, undo records and runs show only to those who may read all their layers.",
        (
            f"{_RULES}test_rule_18_what_was_sent_shows_only_to_those_who_may_read_its_layer",
            "tests/memory/undoing/test_undo.py::test_a_change_is_there_only_for_who_may_write_all_its_layers",
            "tests/memory/runs/test_runs.py::"
            "test_a_run_shows_to_who_may_read_all_of_its_layers_and_holds_up_nobody_else",
            "tests/memory/runs/test_runs.py::test_a_report_shows_by_its_layers_and_belongs_to_a_run_that_shows",
            "tests/isolation/test_gateway.py::"
            "test_an_upload_of_another_tenant_or_layer_is_answered_like_one_that_never_was",
            "tests/isolation/test_gateway.py::test_an_export_is_there_only_for_who_made_it_and_may_read_all_of_it",
            f"{_CELLS}test_an_export_under_way_elsewhere_is_answered_like_one_that_never_was",
            f"{_MOVING}test_export.py::test_only_ones_own_older_exports_of_readable_layers_are_counted_and_pruned",
            f"{_MOVING}test_export.py::test_a_file_is_found_only_by_who_made_it_and_may_read_all_of_it",
        ),
    ),
    19: Rule(
        "An idempotency key belongs to a tenant, a person and a tool, and to the layers of its call.",
        (
            f"{_RULES}test_rule_19_a_key_means_nothing_to_another_tenant",
            "tests/store/test_idempotency.py::test_the_same_call_again_gets_the_first_answer",
            "tests/store/test_idempotency.py::test_callers_at_once_apply_it_once_and_all_get_the_answer",
            "tests/store/test_idempotency.py::test_another_key_tool_or_person_is_another_call",
            "tests/store/test_idempotency.py::test_other_arguments_are_refused",
            "tests/store/test_idempotency.py::test_other_layers_are_refused",
            "tests/store/test_idempotency.py::test_a_refusal_is_not_remembered",
        ),
    ),
    20: Rule(
        "Full-text: one token per partition, whole match sets, the call's own term weights.",
        (
            "tests/store/test_partition.py::test_no_two_partitions_share_a_token",
            "tests/graph/test_search.py::test_foreign_writes_change_no_byte",
            "tests/graph/test_search.py::test_terms_that_everything_holds_are_required_together",
            "tests/graph/test_search.py::test_the_rarer_word_weighs_more",
        ),
    ),
    21: Rule(
        "Foreign writes change no byte of an answer; above 500 vectors recall of exact is at least 0.99.",
        (
            f"{_FOREIGN}test_foreign_writes_change_no_byte_of_an_answer",
            f"{_FOREIGN}test_above_500_vectors_recall_is_kept_with_and_without_foreign_writes",
            f"{_FOREIGN}test_a_vector_depends_on_its_text_alone",
            "tests/isolation/test_interleavings.py::test_nobody_notices_what_others_do_out_of_sight",
        ),
    ),
    22: Rule(
        "A tenant moves to a new data id out of sight and at once; writes wait, and what belongs to the old id ends.",
        (
            "tests/faults/test_crash_restore.py::test_a_restore_that_dies_at_any_step_leaves_the_state_before_or_after",
            f"{_MOVING}test_restore.py::test_what_belongs_to_the_old_data_id_ends_and_what_waits_comes_along",
            f"{_MOVING}test_restore.py::test_two_restores_at_once_do_not_mix",
            f"{_MOVING}test_exchange.py::test_who_works_on_the_whole_graph_is_refused_once_it_moves",
            "tests/store/control/test_moves.py::test_who_resumes_a_tenant_that_is_being_moved_does_not_reopen_it",
            "tests/access/test_authorize.py::test_a_tenant_that_moves_reads_on_and_refuses_writes_for_a_moment",
        ),
    ),
}

_HEAD: Final = """\
# Isolation

Written by `make docs` from the harness in `tests/isolation`; a test keeps it current.

A record belongs to one tenant and to one of its layers (or to the whole tenant). A caller sees the layers that it was
granted and nothing else. The harness builds a tenant with hidden layers beside a second tenant that holds the same
names, ids and texts, and a twin tenant that is alone in the world, in which only the visible part was ever written.
Every tool of the registry is called in every cell below, through the real dispatcher and for several grants; a tool
without a recipe fails the tests. In each cell:

* the crowded tenant and its lonely twin answer alike, byte for byte, but for the fields that the registry marks
  volatile (clock values and cursors);
* no mark of a hidden record shows in an answer, an error, a count, an explanation or the inside of a cursor;
* a write leaves every record outside the layers that it may write to the same, to the byte.

"""

_TAIL: Final = """
## Prompts, resources, completion

Every resource and every completion is read in the same cells, every prompt filled in there
(`tests/isolation/test_surfaces.py`); one without a recipe fails the tests.

## Pages

Each page and form of the console is asked for in the same way (`tests/isolation/test_console.py`, generated from its
table of routes): an owner's own pages show nothing of another tenant, and another tenant's id, or one of its records
under one's own address, answers like an id that never was and changes nothing.

## What is measured rather than promised

* Above 500 vectors in the layers that a call reads, the vector index decides which records are near: recall of the
  exact answer is held at 0.99 or more, with 3,000 foreign writes and without them.
* Above 2,000 records that hold each word of a query, the full-text index decides where its list ends.
* Time: a search beside a foreign crowd of vectors around the query is held within a coarse bound.

## What a tenant's members may notice of each other

* Quotas count the whole tenant: a refusal says that the tenant's quota is used up, whatever layer used it.
* An `idempotency_key` that the same person used with other layers is refused as used.
* A run holds the layers that it writes to: who would begin one there is told that another is under way, and whose and
  what only if they may read all of its layers.
* A layer's copy of an entity takes its name from the tenant-wide one when it is made, also for those who later read
  the layer alone.
"""


def page() -> str:
    """The text of ``docs/ISOLATION.md``."""
    lines = ["| cell | what is held |", "|---|---|", *(f"| {name} | {held} |" for name, (_, held) in CELLS.items())]
    lines.append("\n## Tools\n\nThe figures are ways of calling the tool.\n")
    lines.append(f"| tool | {' | '.join(CELLS)} |\n|---|{'---|' * len(CELLS)}")
    for tool in every_tool():
        ways = str(len(RECIPES.get(tool.name, ()))) or "-"
        lines.append(f"| `{tool.name}` | {' | '.join([ways] * len(CELLS))} |")
    lines.append("\n## Rules\n\n| rule | what it says | held by |\n|---|---|---|")
    for number, rule in RULES.items():
        held = "<br>".join(f"`{test}`" for test in rule.tests) or f"waits for {', '.join(rule.awaits)}"
        lines.append(f"| {number} | {rule.words} | {held} |")
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
