"""The faults of the source system (W-M00 to W-M35), and the tests that rule each of them out here.

``tests`` are pytest's names from ``tests/`` on, as in ``tests.faults.table``.
"""

from __future__ import annotations

from tests.faults.table import Fault

__all__ = ["SOURCE_FAULTS"]

SOURCE_FAULTS = (
    Fault(
        0,
        "requests at once end the process",
        (
            "test_main.py::test_hundreds_of_overlapping_calls_each_get_their_own_answer",
            "edge/test_server.py::test_hundreds_of_overlapping_requests_and_open_streams_do_not_disturb_each_other",
        ),
    ),
    Fault(
        1,
        "types, relations and hops written into Cypher",
        (
            "memory/test_inputs.py::test_a_type_or_relation_that_is_no_plain_word_is_refused",
            "memory/changing/test_adjust.py::test_a_relation_can_carry_no_cypher",
            "memory/test_reading.py::test_hops_weights_and_limits_bound_a_query",
            "store/test_guard.py::test_what_reads_more_than_records_or_writes_is_refused",
        ),
    ),
    Fault(
        2,
        "properties of a call that overwrite tenant, id, name, vector or dates",
        (
            "memory/test_inputs.py::test_protected_properties_are_refused_on_entities_and_relations",
            "graph/test_entity.py::test_properties_that_may_not_be_are_refused",
        ),
    ),
    Fault(
        3,
        "a relation that was superseded stays ended when it is asserted again",
        (
            "memory/test_timeline.py::test_asserting_an_ended_relation_again_makes_it_current_and_keeps_its_past",
            "memory/test_relate.py::test_asserting_a_superseded_relation_again_makes_it_current",
        ),
    ),
    Fault(
        4,
        "supersession blind to time and to how many values a relation has, and missing in batches",
        (
            "memory/test_timeline.py::test_a_late_older_fact_is_stored_as_already_ended",
            "memory/test_timeline.py::test_many_values_stay_where_a_relation_has_many",
            "memory/test_relate.py::test_supersession_follows_validity_and_happens_in_batches_too",
            "memory/test_relate.py::test_which_relations_have_one_value_at_a_time_is_the_tenants_own_rule",
        ),
    ),
    Fault(
        5,
        "names of other scripts or with signs that share an id, rename another or fail midway",
        (
            "memory/test_relate.py::test_names_in_any_script_are_entities_of_their_own",
            "memory/test_relate.py::test_the_first_display_name_stays_and_later_spellings_become_aliases",
            "memory/test_relate.py::test_an_entity_keeps_its_first_type_and_says_so",
            "graph/test_identity.py::test_names_of_symbols_alone_are_told_apart",
        ),
    ),
    Fault(
        6,
        "files, queue, log and counts of the host shared by all tenants",
        (
            "ingest/test_service.py::test_a_path_is_for_operators_and_only_below_an_allowed_folder",
            "ingest/test_reading.py::test_a_transcript_is_found_by_session_or_the_last_part_of_a_path",
            "memory/moving/test_export.py::test_only_ones_own_older_exports_of_readable_layers_are_counted_and_pruned",
            "memory/runs/test_runs.py::test_what_is_reported_is_stored_with_what_the_gateway_knows",
            "memory/analysis/test_context.py::test_only_the_tenants_own_runs_and_work_are_told",
        ),
    ),
    Fault(
        7,
        "decay that compounds with every run",
        ("memory/fading/test_decay.py::test_thirty_runs_leave_what_one_run_leaves",),
    ),
    Fault(
        8,
        "an administrator without a password, and bodies read before anyone is known",
        (
            "access/test_authenticate.py::test_without_a_token_the_challenge_says_where_to_sign_in_and_names_no_error",
            "test_main.py::test_without_a_token_it_challenges_before_it_reads_the_body",
            "ingest/test_uploads.py::test_without_a_token_it_challenges_before_a_byte_is_read",
        ),
    ),
    Fault(
        9,
        "refresh tokens that are never replaced, an allow-list that fails open, races over key and client files",
        (
            "oauth/test_token.py::test_a_refresh_token_is_replaced_and_the_old_one_ends_the_grant",
            "oauth/test_token.py::test_a_code_used_twice_revokes_what_it_gave",
            "oauth/test_vault.py::test_replicas_that_start_at_once_use_the_same_keys",
            "oauth/test_sealing.py::test_processes_that_start_at_once_agree_on_the_key_file",
        ),
    ),
    Fault(
        10,
        "signs in a search that reach the parser, and types that full text does not cover",
        (
            "graph/test_search.py::test_whatever_is_typed_never_reaches_the_parser",
            "graph/test_search.py::test_evidence_and_unknown_properties_are_searched",
            "memory/test_relate.py::test_lucene_syntax_and_odd_text_are_plain_names",
        ),
    ),
    Fault(
        11,
        "a small tenant that finds nothing in a large vector index",
        (
            "graph/test_search.py::test_a_crowd_around_the_query_starves_no_other_tenant_and_recall_is_kept",
            "memory/analysis/test_suggestions.py::test_a_large_memory_is_looked_at_through_its_own_part_of_the_index",
        ),
    ),
    Fault(
        12,
        "a similarity of one scale compared with a threshold of another",
        ("graph/test_search.py::test_similarity_is_a_cosine_and_score_its_half_scale",),
    ),
    Fault(
        13,
        "paths enumerated without bound on hubs, and cut without order",
        (
            "memory/test_reading.py::test_a_hub_is_bounded_and_its_answer_the_same_each_time",
            "memory/analysis/test_communities.py::test_only_strong_current_relations_bind",
        ),
    ),
    Fault(
        14,
        "what has ended counted as if it held",
        (
            "memory/test_reading.py::test_search_finds_by_meaning_and_expands_over_current_relations",
            "memory/test_reading.py::test_stats_count_what_holds_and_contradictions_without_a_mark",
            "memory/analysis/test_context.py::test_what_was_not_asked_for_is_null_and_what_ended_is_no_hub",
            "memory/analysis/test_communities.py::test_only_strong_current_relations_bind",
            "memory/analysis/test_suggestions.py::test_ended_relations_and_hidden_layers_count_for_nothing",
        ),
    ),
    Fault(
        15,
        "changes of several transactions, half of which a crash leaves",
        (
            "faults/test_crash_points.py::test_a_process_that_dies_at_any_statement_leaves_the_state_before_or_after",
            "faults/test_crash_restore.py::test_a_restore_that_dies_at_any_step_leaves_the_state_before_or_after",
            "faults/test_crash_ingest.py::test_a_process_that_dies_while_it_converts_leaves_the_file_to_the_next",
            "memory/merging/test_merge.py::test_relations_move_or_become_one_and_those_between_the_two_go",
            "store/test_concurrency.py::test_concurrent_creators_of_one_entity_make_one",
        ),
    ),
    Fault(
        16,
        "weights above one or below zero",
        (
            "memory/test_relate.py::test_weights_are_clamped_with_a_warning_and_mentions_never_pass_one",
            "memory/changing/test_adjust.py::test_no_amount_leaves_zero_to_one",
            "memory/test_inputs.py::test_a_weight_that_is_no_number_is_refused",
        ),
    ),
    Fault(
        17,
        "created and strengthened told apart wrongly, evidence dropped",
        (
            "memory/test_relate.py::test_the_first_word_creates_and_the_next_strengthens",
            "memory/test_relate.py::test_evidence_and_provenance_are_stored_and_evidence_is_found",
        ),
    ),
    Fault(
        18,
        "weakening that refreshes, and calls that count twice when repeated",
        (
            "memory/changing/test_adjust.py::test_a_weakened_relation_is_as_old_as_before",
            "memory/changing/test_adjust.py::test_the_same_key_boosts_or_weakens_once",
            "memory/test_relate.py::test_the_same_idempotency_key_applies_once",
        ),
    ),
    Fault(
        19,
        "names looked up by case here and without an index there",
        (
            "graph/test_lookup.py::test_names_resolve_in_one_round_trip",
            "memory/test_relate.py::test_a_batch_connects_by_local_id_by_name_and_to_what_is_known",
            "graph/test_identity.py::test_an_id_is_the_id_of_itself_and_of_every_spelling",
        ),
    ),
    Fault(
        20,
        "nested values that the database refuses midway",
        ("memory/test_relate.py::test_nested_values_are_kept",),
    ),
    Fault(
        21,
        "whole numbers stored as another type, and vectors of nothing",
        (
            "memory/test_relate.py::test_numbers_are_stored_as_floats",
            "embedding/test_embedder.py::test_the_packaged_model_knows_meaning_and_gives_unit_vectors",
        ),
    ),
    Fault(
        22,
        "merges that turn moments into text and forget validity, confidence and what was before",
        (
            "memory/merging/test_merge.py::test_a_moved_relation_keeps_all_its_properties_and_its_moments",
            "memory/merging/test_merge.py::test_what_holds_beats_what_ended_and_the_past_is_kept",
            "memory/merging/test_merge.py::test_confidence_and_mentions_are_combined",
            "memory/merging/test_merge.py::test_undoing_a_merge_restores_everything_exactly",
        ),
    ),
    Fault(
        23,
        "unmerge that clashes, leaves stray records and says that it was audited",
        (
            "memory/merging/test_unmerge.py::test_an_id_that_is_taken_is_a_conflict_with_words",
            "memory/merging/test_unmerge.py::test_a_missing_original_is_refused_and_no_stray_node_arises",
            "memory/merging/test_unmerge.py::test_the_new_entity_is_found_by_meaning_and_by_what_its_relations_say",
            "memory/merging/test_unmerge.py::test_it_is_audited_and_can_be_undone",
        ),
    ),
    Fault(
        24,
        "a pruning that removes what its preview protects",
        ("memory/removing/test_prune.py::test_execute_takes_exactly_what_the_preview_lists_and_no_rule",),
    ),
    Fault(
        25,
        "contradictions that never surface",
        (
            "memory/changing/test_contradictions.py::test_a_contradiction_is_open_and_dated_from_the_moment_it_is_recorded",
            "memory/changing/test_contradictions.py::test_a_contradiction_without_the_property_waits_too",
        ),
    ),
    Fault(
        26,
        "checks that compare all names with all, and find fault with short real ones",
        (
            "memory/analysis/test_validate.py::test_each_check_finds_its_fault_and_short_real_names_are_none",
            "memory/analysis/test_validate.py::test_many_alike_names_are_grouped_and_each_is_reported_once",
            "memory/analysis/test_validate.py::test_an_orphan_of_default_confidence_is_found_and_a_rule_is_none",
        ),
    ),
    Fault(
        27,
        "vectors made for one of two tenants with one id, ever slower, and never again after a failure",
        (
            "memory/analysis/test_reembed.py::test_all_tenants_are_for_operators_and_stand_in_their_audits",
            "memory/analysis/test_reembed.py::test_when_time_ends_the_rest_is_counted_and_the_next_call_goes_on",
            "memory/analysis/test_reembed.py::test_without_a_model_it_says_so_and_one_that_stops_leaves_the_rest",
        ),
    ),
    Fault(
        28,
        "files read and written in the event loop",
        ("ingest/test_service.py::test_what_is_queued_is_pending_with_name_moment_and_size",),
    ),
    Fault(
        29,
        "exports held in memory that overwrite each other and name tenants; imports that cross them",
        (
            "memory/moving/test_export.py::test_memory_stays_the_same_however_much_there_is",
            "memory/moving/test_export.py::test_names_say_when_and_what_for_and_two_of_a_second_do_not_meet",
            "memory/moving/test_export.py::test_the_file_holds_what_the_contract_says_and_names_no_tenant",
            "memory/moving/test_importing.py::test_the_source_systems_export_keeps_times_and_ends_and_loses_its_tenant",
        ),
    ),
    Fault(
        30,
        "a lock of runs that excludes nobody and belongs to nobody",
        (
            "memory/runs/test_runs.py::test_of_several_devices_that_begin_at_once_one_leads",
            "memory/runs/test_runs.py::test_after_its_lease_another_device_goes_on_and_the_first_cannot_come_back",
            "memory/runs/test_runs.py::test_another_device_of_the_same_person_does_not_lead_the_run",
        ),
    ),
    Fault(
        31,
        "formats judged by five lines, resumed sessions unseen, a manifest written by hand",
        (
            "ingest/test_transcripts.py::test_the_first_messages_decide_the_format_not_the_first_lines",
            "ingest/test_intake.py::test_a_session_that_went_on_takes_the_place_of_its_beginning",
            "memory/runs/test_runs.py::test_a_watermark_never_moves_back_and_a_repeated_report_counts_once",
        ),
    ),
    Fault(
        32,
        "answers without bound and without a next page",
        (
            "memory/changing/test_contradictions.py::test_pages_hold_each_contradiction_once_the_newest_first",
            "memory/removing/test_prune.py::test_lists_are_paged_and_an_execution_takes_so_many_and_says_what_remains",
            "memory/analysis/test_cypher.py::test_rows_size_and_time_are_bounded",
        ),
    ),
    Fault(
        33,
        "somebody's data in a shipped skill, and skills that drift from their prompts",
        (
            "memory/prompts/test_loading.py::test_a_prompt_holds_nobodys_data",
            "memory/prompts/test_loading.py::test_every_tool_and_argument_that_a_prompt_names_exists",
            "cli/test_plugin.py::test_the_shipped_folder_is_what_the_prompts_say",
        ),
    ),
    Fault(
        34,
        "health that is good beside a dead database, and a start that goes on without its schema",
        (
            "edge/test_routes.py::test_readiness_names_what_is_missing_and_only_what_is_required_counts",
            "test_main.py::test_a_database_that_is_away_at_the_start_is_no_reason_to_stop",
            "test_main.py::test_a_database_that_comes_late_and_cannot_be_used_ends_the_process",
        ),
    ),
    Fault(
        35,
        "an e-mail address as identity",
        (
            "store/control/test_users.py::test_a_user_is_found_by_address_in_any_case_and_known_by_a_stable_id",
            "oauth/login/test_access_proxy.py::test_an_assertion_signs_in_and_the_subject_is_the_identity",
        ),
    ),
)
