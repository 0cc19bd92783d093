"""The attacks of each source, and the tests that rule each of them out, wherever they stand.

Sources: RFC 9700 §4 (section numbers in the text), OAuth 2.1 §7 (by the titles of its sections), the MCP security best
practices (by their headings), and kinds of failure that were reported in public (numbers of ``tests/faults/table.py``).
``tests`` are pytest's names from ``tests/`` on.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ATTACKS", "Attack"]

RFC_9700: Final = "RFC 9700"
OAUTH_2_1: Final = "OAuth 2.1"
MCP: Final = "MCP security best practices"
FAULTS: Final = "reported failures"


class Attack(NamedTuple):
    """One attack, or what a source says against one."""

    source: str
    attack: str
    tests: tuple[str, ...]


ATTACKS = (
    Attack(
        RFC_9700,
        "4.1 redirect URIs: other hosts, user information, back-slashes, fragments, encodings, look-alikes, ports",
        (
            "attacks/test_rfc_9700.py::test_no_trick_with_a_redirect_uri_is_registered_or_redirected_to",
            "attacks/test_rfc_9700.py::test_no_trick_with_a_loopback_address_leads_off_this_computer",
            "oauth/clients/test_redirect.py::test_tricks_are_refused",
            "oauth/clients/test_redirect.py::test_only_the_port_of_a_loopback_address_may_differ",
            "oauth/test_authorize.py::test_before_client_and_address_are_trusted_an_error_is_a_page",
            "oauth/test_authorize.py::test_a_stricter_policy_reaches_clients_that_registered_before",
        ),
    ),
    Attack(
        RFC_9700,
        "4.2, 4.3 codes and states in referrers, pages and histories",
        (
            "attacks/test_rfc_9700.py::test_nothing_of_a_code_leaves_by_a_referrer_or_stays_with_a_page",
            "access/test_authenticate.py::test_a_token_in_the_query_string_counts_for_nothing",
            "edge/test_stages.py::test_one_line_a_request_is_logged_without_query_body_or_token",
        ),
    ),
    Attack(
        RFC_9700,
        "4.4 mix-up of two authorization servers",
        (
            "attacks/test_rfc_9700.py::test_an_answer_names_its_issuer_at_each_address",
            "attacks/test_rfc_9700.py::test_a_code_of_one_address_is_worth_nothing_at_the_other_and_stays_good",
            "oauth/test_metadata.py::test_a_client_of_one_address_is_unknown_at_another",
            "oauth/login/test_upstream.py::test_an_answer_counts_once_in_one_browser_from_one_issuer",
        ),
    ),
    Attack(
        RFC_9700,
        "4.5 injection and replay of authorization codes",
        (
            "attacks/test_rfc_9700.py::test_an_injected_code_is_not_redeemed_by_another_session_or_client",
            "oauth/test_token.py::test_a_code_belongs_to_its_client",
            "oauth/test_token.py::test_a_code_used_twice_revokes_what_it_gave",
            "oauth/test_token.py::test_of_many_exchanges_of_one_code_at_once_at_most_one_succeeds",
            "oauth/test_token.py::test_a_code_has_a_short_life",
        ),
    ),
    Attack(
        RFC_9700,
        "4.6, 4.17 tokens from the authorization endpoint, and answers posted between windows",
        ("attacks/test_rfc_9700.py::test_no_other_way_of_answering_is_offered",),
    ),
    Attack(
        RFC_9700,
        "4.7 cross-site request forgery",
        (
            "oauth/test_consent.py::test_a_post_without_the_token_of_this_form_and_browser_changes_nothing",
            "oauth/test_consent.py::test_a_post_from_another_origin_or_person_is_refused",
            "oauth/login/test_upstream.py::test_a_foreign_page_connects_nothing",
            "console/test_rights.py::test_a_form_counts_only_in_its_own_browser_and_from_our_own_page",
        ),
    ),
    Attack(
        RFC_9700,
        "4.8 PKCE: missing, plain, downgraded, guessed",
        (
            "attacks/test_rfc_9700.py::test_a_request_without_s256_gets_no_code",
            "attacks/test_rfc_9700.py::test_a_code_is_given_for_its_verifier_alone",
        ),
    ),
    Attack(
        RFC_9700,
        "4.9, 4.10 tokens at another resource, or after they were stolen",
        (
            "attacks/test_rfc_9700.py::test_a_token_is_for_the_one_resource_that_it_names",
            "attacks/test_rfc_9700.py::test_a_resource_of_somebody_else_yields_no_token",
            "access/test_verify.py::test_a_token_of_another_gateway_is_refused",
            "access/test_verify.py::test_a_personal_token_of_another_gateway_with_the_same_keys_is_refused",
            "access/test_verify.py::test_an_audience_list_is_refused",
            "access/test_verify.py::test_a_revocation_reaches_a_second_replica_within_five_seconds",
        ),
    ),
    Attack(
        RFC_9700,
        "4.11 open redirection",
        (
            "attacks/test_rfc_9700.py::test_no_continuation_leads_off_this_gateway",
            "oauth/login/test_password_page.py::test_signing_in_leads_nowhere_else",
        ),
    ),
    Attack(
        RFC_9700,
        "4.12 a 307 that sends a form on",
        ("attacks/test_rfc_9700.py::test_every_form_is_answered_with_303",),
    ),
    Attack(
        RFC_9700,
        "4.13 headers that only a proxy may set",
        (
            "edge/test_stages.py::test_forged_forwarded_headers_are_removed_on_the_loopback_port",
            "edge/test_stages.py::test_what_an_identity_proxy_says_is_believed_from_the_unix_socket_alone",
            "oauth/login/test_access_proxy.py::test_a_forged_assertion_is_refused",
        ),
    ),
    Attack(
        RFC_9700,
        "4.14 stolen and replayed refresh tokens",
        (
            "attacks/test_rfc_9700.py::test_a_stolen_refresh_token_serves_no_other_client_and_ends_nothing",
            "oauth/test_token.py::test_a_refresh_token_is_replaced_and_the_old_one_ends_the_grant",
            "oauth/test_token.py::test_a_refresh_may_narrow_scopes_but_never_widen_them",
        ),
    ),
    Attack(
        RFC_9700,
        "4.15 a client in the place of a person",
        (
            "attacks/test_rfc_9700.py::test_no_client_chooses_its_own_name_for_a_subject",
            "oauth/clients/test_service_accounts.py::test_each_kind_of_client_keeps_to_its_grant_type",
        ),
    ),
    Attack(
        RFC_9700,
        "4.16 clickjacking",
        (
            "attacks/test_rfc_9700.py::test_every_page_refuses_to_be_framed",
            "oauth/test_consent.py::test_pages_cannot_be_framed_scripted_or_stored",
            "console/test_rights.py::test_pages_are_neither_framed_nor_stored_and_run_no_script_but_ours",
        ),
    ),
    Attack(
        OAUTH_2_1,
        "access tokens: what a stranger learns about them",
        (
            "attacks/test_oauth_2_1.py::test_a_stranger_learns_nothing_about_a_token",
            "oauth/clients/test_service_accounts.py::test_introspection_shows_a_client_its_own_tokens_alone",
            "oauth/test_token.py::test_token_answers_are_never_stored",
        ),
    ),
    Attack(
        OAUTH_2_1,
        "client authentication",
        (
            "attacks/test_oauth_2_1.py::test_a_client_is_proven_by_its_own_secret_in_the_body_or_header_alone",
            "oauth/clients/test_rfc7523.py::test_a_proof_counts_once",
            "oauth/clients/test_rfc7523.py::test_a_proof_for_something_else_is_refused",
        ),
    ),
    Attack(
        OAUTH_2_1,
        "client impersonation",
        (
            "attacks/test_oauth_2_1.py::test_a_registered_name_is_a_name_and_nothing_more",
            "oauth/test_consent.py::test_it_shows_who_asks_and_that_nobody_vouches_for_a_local_program",
            "oauth/clients/test_cimd.py::test_an_address_that_the_document_does_not_list_is_never_redirected_to",
        ),
    ),
    Attack(
        OAUTH_2_1,
        "credentials guessing, and locking somebody out by it",
        (
            "attacks/test_oauth_2_1.py::test_what_one_holds_cannot_be_guessed",
            "attacks/test_oauth_2_1.py::test_a_wrong_password_counts_for_one_account_and_not_for_its_own_browser",
            "oauth/login/test_password_page.py::test_an_account_can_be_tried_only_so_often_whoever_tries",
            "oauth/login/test_password_page.py::test_wrong_passwords_say_the_same_for_known_and_unknown_accounts",
            "oauth/login/test_ways_in.py::test_a_spent_budget_stores_nothing_for_made_up_addresses_and_stops_no_known_browser",
        ),
    ),
    Attack(
        OAUTH_2_1,
        "cross-site request forgery of consent and sign-in, session fixation",
        (
            "attacks/test_oauth_2_1.py::test_a_foreign_browser_answers_no_question",
            "attacks/test_oauth_2_1.py::test_a_planted_cookie_is_never_signed_in",
            "oauth/login/test_password_page.py::test_signing_in_gives_a_new_cookie",
        ),
    ),
    Attack(
        OAUTH_2_1,
        "injection and input validation: markup, headers, sizes, encodings, kinds",
        (
            "attacks/test_oauth_2_1.py::test_nothing_that_was_sent_becomes_markup",
            "attacks/test_oauth_2_1.py::test_no_header_is_split",
            "attacks/test_oauth_2_1.py::test_whatever_is_oversized_or_malformed_is_refused_in_words",
            "attacks/test_fuzz.py::test_five_hundred_spoiled_requests_are_refused_in_words_and_leave_nothing",
            "attacks/test_fuzzed_ways_in.py::test_hundreds_of_spoiled_requests_at_the_ways_in_let_nobody_in",
            "access/test_authenticate.py::test_the_challenge_cannot_be_broken_by_what_it_quotes",
        ),
    ),
    Attack(
        OAUTH_2_1,
        "denial of service by what anybody may ask for",
        (
            "attacks/test_flood.py::test_a_flood_of_registrations_stores_nothing_and_disturbs_nobody_connected",
            "attacks/test_fuzz.py::test_of_questions_that_nobody_answers_the_newest_are_kept",
            "oauth/clients/test_cimd.py::test_a_flood_of_made_up_addresses_is_bounded_and_leaves_nothing",
        ),
    ),
    Attack(
        MCP,
        "confused deputy",
        (
            "attacks/test_mcp_practices.py::test_every_client_is_asked_for_anew",
            "oauth/test_consent.py::test_a_question_is_answered_once",
        ),
    ),
    Attack(
        MCP,
        "token passthrough, forged and foreign tokens",
        (
            "attacks/test_mcp_practices.py::test_no_made_over_token_opens_the_resource",
            "attacks/test_mcp_practices.py::test_each_credential_opens_its_own_door_alone",
            "access/test_verify.py::test_an_unsigned_token_is_refused",
            "access/test_verify.py::test_the_public_key_is_no_shared_secret",
            "access/test_verify.py::test_a_token_of_another_type_is_refused",
        ),
    ),
    Attack(
        MCP,
        "server-side request forgery",
        (
            "attacks/test_mcp_practices.py::test_no_client_id_makes_the_gateway_call_its_own_network",
            "attacks/test_mcp_practices.py::test_no_address_within_the_metadata_is_called_or_shown",
            "attacks/test_mcp_practices.py::test_keys_at_an_address_are_not_fetched_for_a_proof",
            "oauth/clients/test_fetching.py::test_one_address_that_is_not_public_refuses_the_whole_answer",
            "oauth/clients/test_fetching.py::test_a_host_is_looked_up_once_and_the_connection_goes_to_that_answer",
            "oauth/clients/test_fetching.py::test_a_redirect_is_not_followed",
            "ingest/test_fetching.py::test_only_public_places_are_asked",
            "ingest/test_fetching.py::test_each_redirect_is_judged_like_the_address_that_was_given",
        ),
    ),
    Attack(
        MCP,
        "session hijacking, and a token of one tenant with another's names",
        (
            "attacks/test_mcp_practices.py::test_a_token_reaches_its_own_tenant_whatever_else_is_said",
            "attacks/test_mcp_practices.py::test_an_owner_changes_nothing_of_another_tenant_through_the_own_pages",
            "faults/test_identity.py::test_two_tenants_on_one_connection_and_one_session_id_each_see_their_own",
            "protocol/test_server.py::test_an_invented_session_is_no_obstacle",
        ),
    ),
    Attack(
        MCP,
        "scope minimisation",
        (
            "attacks/test_mcp_practices.py::test_no_scope_gives_more_than_the_person_may_and_ticked",
            "access/test_authorize.py::test_a_missing_scope_that_the_person_could_grant_is_challenged_with_all_that_is_needed",
            "oauth/test_consent.py::test_what_was_not_asked_for_cannot_be_ticked",
        ),
    ),
    Attack(
        FAULTS,
        "6 errors of the token endpoint as 500 or 422",
        (
            "attacks/test_fuzz.py::test_five_hundred_spoiled_requests_are_refused_in_words_and_leave_nothing",
            "oauth/test_token.py::test_anything_but_one_clean_form_is_an_oauth_error",
        ),
    ),
    Attack(
        FAULTS,
        "8 registrations by others that lock a user out",
        (
            "attacks/test_flood.py::test_a_flood_of_registrations_stores_nothing_and_disturbs_nobody_connected",
            "oauth/clients/test_rfc7591.py::test_an_id_of_another_gateway_address_or_hand_is_unknown",
        ),
    ),
    Attack(
        FAULTS,
        "9 callers that name their own user or tenant",
        (
            "attacks/test_mcp_practices.py::test_a_token_reaches_its_own_tenant_whatever_else_is_said",
            "access/test_authenticate.py::test_a_caller_cannot_name_its_own_user_or_tenant",
            "faults/test_identity.py::test_a_user_or_tenant_among_the_arguments_is_refused",
        ),
    ),
    Attack(
        FAULTS,
        "28 one limit for all behind a proxy, or one for each forged address",
        (
            "limits/test_limit.py::test_a_bucket_belongs_to_the_tenant_and_client_and_not_to_an_address",
            "edge/test_stages.py::test_the_unix_socket_is_believed_and_only_the_rightmost_hop_counts",
        ),
    ),
)
