"""Kinds of failure that were reported in public against comparable systems, and the tests that rule each of them out.

``tests`` are pytest's names from ``tests/`` on. A kind belongs here as soon as the product has what it can happen to.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FAULTS", "Fault"]


class Fault(NamedTuple):
    """One kind of failure."""

    number: int
    kind: str
    tests: tuple[str, ...]


FAULTS = (
    Fault(
        1,
        "metadata that advertises client id documents by half, so that clients cannot register",
        (
            "oauth/test_metadata.py::test_the_authorization_server_describes_itself",
            "oauth/test_metadata.py::test_every_address_that_the_documents_name_answers",
            "oauth/clients/test_rfc7591.py::test_what_the_hosted_connector_sends_is_accepted",
            "oauth/clients/test_cimd.py::test_a_client_without_scope_connects_by_its_address_and_gets_what_was_granted",
            "faults/test_identity.py::test_whoever_advertises_client_id_documents_also_serves_public_clients",
        ),
    ),
    Fault(
        2,
        "a resource with and without its trailing slash counted as two",
        (
            "oauth/test_metadata.py::test_a_resource_has_two_spellings_and_no_more",
            "oauth/test_token.py::test_both_spellings_of_the_resource_yield_the_canonical_audience",
            "oauth/test_rfc9068.py::test_issuer_and_resource_never_end_in_a_slash",
        ),
    ),
    Fault(
        3,
        "protected resource metadata in the wrong place or for another resource",
        (
            "oauth/test_metadata.py::test_the_resource_is_published_byte_for_byte",
            "test_main.py::test_without_a_token_it_challenges_before_it_reads_the_body",
            "e2e/test_first_connection.py::test_a_client_that_knows_only_the_address_gets_in_and_works_in_both_eras",
        ),
    ),
    Fault(
        4,
        "two refreshes at once lose the session",
        (
            "oauth/test_token.py::test_parallel_refreshes_get_the_same_successor",
            "oauth/test_token.py::test_who_comes_late_in_the_grace_gets_the_newest_token_not_a_used_one",
            "oauth/test_token.py::test_a_refresh_token_is_replaced_and_the_old_one_ends_the_grant",
        ),
    ),
    Fault(
        5,
        "clients, codes or tokens that only one process remembers",
        (
            "oauth/test_flow.py::test_the_flow_needs_nothing_that_a_process_remembers",
            "oauth/test_token.py::test_an_unknown_client_is_told_so",
            "e2e/test_first_connection.py::test_after_a_restart_tokens_work_on_and_are_refreshed_without_anyone",
        ),
    ),
    Fault(
        6,
        "a token endpoint that answers errors as 500 or 422, or takes anything but a form",
        (
            "oauth/test_token.py::test_anything_but_one_clean_form_is_an_oauth_error",
            "oauth/test_token.py::test_an_exchange_that_does_not_fit_is_refused",
            "oauth/test_token.py::test_token_answers_are_never_stored",
        ),
    ),
    Fault(
        7,
        "a client's metadata document that cannot be fetched, is something else, or leads where it must not",
        (
            "oauth/clients/test_cimd.py::test_a_document_that_cannot_be_had_is_named_with_the_cause",
            "oauth/clients/test_cimd.py::test_the_last_good_copy_serves_while_the_host_fails",
            "oauth/clients/test_cimd.py::test_claude_connects_without_a_fetch",
            "oauth/clients/test_fetching.py::test_one_address_that_is_not_public_refuses_the_whole_answer",
            "oauth/clients/test_fetching.py::test_a_redirect_is_not_followed",
            "oauth/clients/test_fetching.py::test_a_host_that_takes_its_time_is_left",
            "oauth/clients/test_fetching.py::test_more_than_32_kib_are_not_read",
        ),
    ),
    Fault(
        8,
        "a client registration that ends and leaves its user locked out",
        (
            "oauth/test_token.py::test_a_deleted_client_is_unknown",
            "oauth/clients/test_preset.py::test_a_removed_client_is_unknown_everywhere_and_comes_back_without_its_grants",
            "oauth/clients/test_rfc7591.py::test_the_id_holds_the_metadata",
            "oauth/clients/test_rfc7591.py::test_an_id_of_another_gateway_address_or_hand_is_unknown",
        ),
    ),
    Fault(
        9,
        "callers that name their own user or tenant",
        (
            "access/test_authenticate.py::test_a_caller_cannot_name_its_own_user_or_tenant",
            "access/test_layers.py::test_the_data_id_comes_from_the_principal_alone",
            "faults/test_identity.py::test_a_user_or_tenant_among_the_arguments_is_refused",
        ),
    ),
    Fault(
        10,
        "the wrong status for a session that the server does not know",
        (
            "test_main.py::test_legacy_initialize_is_stateless_and_an_invented_session_changes_nothing",
            "protocol/test_server.py::test_an_invented_session_is_no_obstacle",
        ),
    ),
    Fault(
        11,
        "sessions that pile up",
        (
            "test_main.py::test_memory_stays_flat_over_thousands_of_initialize_calls",
            "protocol/test_streams.py::test_memory_stays_flat_over_thousands_of_handshakes",
        ),
    ),
    Fault(
        12,
        "a session, cache or pool that two users share",
        (
            "protocol/test_server.py::test_two_users_at_once_each_get_their_own",
            "protocol/test_server.py::test_the_list_follows_the_role_and_never_the_connection",
            "limits/test_limit.py::test_a_bucket_belongs_to_the_tenant_and_client_and_not_to_an_address",
            "faults/test_identity.py::test_two_tenants_on_one_connection_and_one_session_id_each_see_their_own",
        ),
    ),
    Fault(
        13,
        "a shutdown that hangs or cuts answers off",
        (
            "test_main.py::test_sigterm_with_open_connections_exits_in_time_and_cleanly",
            "edge/test_server.py::test_stopping_ends_an_open_stream_and_exits_in_time",
            "edge/test_server.py::test_stopping_lets_a_call_finish_and_accepts_no_new_one",
            "store/test_outcome.py::test_closing_waits_for_the_commit_under_way",
        ),
    ),
    Fault(
        14,
        "search syntax in a query, long queries and odd tenant ids",
        (
            "graph/test_search.py::test_whatever_is_typed_never_reaches_the_parser",
            "graph/test_search.py::test_no_query_is_an_error",
            "graph/test_text.py::test_a_query_of_two_hundred_words_keeps_its_rarest_terms",
            "store/test_partition.py::test_a_token_is_one_word_of_letters_and_digits",
            "e2e/test_bad_input.py::test_any_text_in_any_argument_is_taken_or_refused",
            "e2e/test_bad_input.py::test_an_odd_name_is_a_name_and_an_odd_question_a_question",
        ),
    ),
    Fault(
        15,
        "text that search cannot see: far into a long one, or in another script",
        (
            "graph/test_text.py::test_a_word_of_the_text_is_found_in_every_script",
            "faults/test_text.py::test_a_word_at_character_nine_thousand_is_found",
            "faults/test_text.py::test_one_word_of_any_script_finds_its_sentence",
        ),
    ),
    Fault(
        16,
        "deadlocks between writers that merge the same names",
        (
            "store/test_concurrency.py::test_writers_of_shuffled_names_beside_a_deleter_leave_no_duplicate_and_no_error",
            "memory/test_concurrency.py::test_writers_in_any_order_make_no_duplicate_and_surface_no_deadlock",
        ),
    ),
    Fault(
        17,
        "updates that overwrite one another",
        (
            "store/test_concurrency.py::test_twenty_updates_from_two_processes_are_all_there",
            "memory/test_concurrency.py::test_parallel_mentions_are_all_counted",
        ),
    ),
    Fault(
        18,
        "accepted, then dropped without a word",
        (
            "ingest/test_conversion.py::test_what_arrives_is_converted_beside_the_calls_and_then_waits_for_a_run",
            "ingest/test_conversion.py::test_a_document_that_ends_every_converter_is_put_aside",
            "ingest/test_service.py::test_what_failed_says_why_keeps_its_file_and_can_wait_again",
            "ingest/test_service.py::test_what_runs_never_complete_ends_among_the_failed",
            "faults/test_crash_ingest.py::test_a_process_that_dies_while_it_accepts_a_file_has_accepted_it_or_not",
            "store/control/test_queue.py::test_what_is_claimed_again_and_again_ends_among_the_failed_with_a_reason",
        ),
    ),
    Fault(
        19,
        "two workers on one job, two runs for one tenant",
        (
            "store/control/test_queue.py::test_two_replicas_never_take_one_item",
            "store/control/test_queue.py::test_an_expired_lease_is_taken_over_and_a_live_one_is_not",
            "ingest/test_service.py::test_a_claim_is_exclusive_until_its_lease_ends",
            "memory/runs/test_runs.py::test_of_several_devices_that_begin_at_once_one_leads",
            "memory/runs/test_runs.py::test_after_its_lease_another_device_goes_on_and_the_first_cannot_come_back",
        ),
    ),
    Fault(
        20,
        "reads without a tenant",
        (
            "store/test_session.py::test_a_scope_without_a_tenant_does_not_exist",
            "store/test_session.py::test_two_tenants_and_two_layers_keep_their_own_john",
            "store/test_statements.py::test_every_statement_binds_its_partition",
        ),
    ),
    Fault(
        21,
        "keys without the tenant, so that one overwrites another's record",
        (
            "store/test_session.py::test_two_tenants_and_two_layers_keep_their_own_john",
            "store/test_checker.py::test_a_write_that_could_leave_its_partition_is_refused",
            "store/test_integrity.py::test_what_breaks_an_invariant_is_found_without_naming_the_tenant",
        ),
    ),
    Fault(
        22,
        "another tenant's id as the end of a hop",
        (
            "memory/test_layers.py::test_another_tenants_entity_is_as_unknown_as_a_random_one",
            "memory/test_layers.py::test_a_hidden_layers_spelling_type_and_count_never_show",
            "store/test_checker.py::test_a_read_that_could_leave_its_partition_is_refused",
        ),
    ),
    Fault(
        23,
        "a crowd of one tenant's vectors starving another's search",
        (
            "graph/test_search.py::test_a_crowd_around_the_query_starves_no_other_tenant_and_recall_is_kept",
            "graph/test_search.py::test_foreign_writes_change_no_byte",
        ),
    ),
    Fault(
        24,
        "injection through types, relations and sort fields",
        (
            "e2e/test_bad_input.py::test_types_other_than_letters_digits_and_underscore_are_refused_with_the_rule",
            "store/test_session.py::test_a_dynamic_label_or_type_is_a_name_whatever_it_holds",
            "faults/test_text.py::test_a_sort_field_is_one_of_the_list",
        ),
    ),
    Fault(
        27,
        "a transcript with bad lines that is lost, or fills the memory",
        (
            "ingest/test_transcripts.py::test_bad_lines_are_counted_and_good_ones_kept",
            "ingest/test_transcripts.py::test_a_line_of_twenty_megabytes_is_passed_over_without_being_held",
            "ingest/test_transcripts.py::test_memory_stays_bounded_on_sixty_megabytes",
        ),
    ),
    Fault(
        28,
        "one bucket for all behind the proxy, or one for each forged address",
        (
            "limits/test_limit.py::test_a_bucket_belongs_to_the_tenant_and_client_and_not_to_an_address",
            "edge/test_stages.py::test_the_unix_socket_is_believed_and_only_the_rightmost_hop_counts",
            "edge/test_stages.py::test_forged_forwarded_headers_are_removed_on_the_loopback_port",
            "e2e/test_first_connection.py::test_what_a_client_says_of_its_way_is_not_believed",
        ),
    ),
    Fault(
        29,
        "erased in one place and left in another",
        (
            "cli/test_movement.py::test_a_memory_is_imported_backed_up_restored_elsewhere_and_erased",
            "ingest/test_service.py::test_cancel_removes_the_item_with_its_file_unless_a_run_works_on_it",
            "access/test_erasing.py::test_nothing_of_a_deleted_tenant_is_left_and_a_signed_certificate_counts_what_was",
            "ingest/test_conversion.py::test_what_is_cancelled_while_it_is_converted_leaves_nothing",
        ),
    ),
    Fault(
        30,
        "another embedding model that is mixed with the old vectors unseen",
        (
            "embedding/test_embedder.py::test_another_model_is_detected_and_refuses_to_mix",
            "embedding/test_embedder.py::test_the_choice_is_recorded_and_held_to",
            "graph/test_search.py::test_vectors_of_another_recipe_are_never_compared",
        ),
    ),
)
