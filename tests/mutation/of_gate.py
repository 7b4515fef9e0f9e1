"""Errors in the gate: checks that an operation skips, headers that it lacks, responses that are not whole."""

from tests.mutation.mutation import Errors

GATE = (
    Errors(
        concept="request at the gate",
        home="Gate",
        laws=(
            "test_both_ways_refuse_alike",
            "test_both_ways_answer_alike",
            "test_both_ways_read_alike",
            "test_both_ways_limit_bodies_alike",
            "test_both_ways_check_keys_alike",
            "test_the_declared_length_limits_a_body_that_has_arrived",
            "test_open_operations_ignore_keys",
        ),
        errors=(
            ("open operations check keys", "_admitted", "need is not None", "True"),
            ("operations ignore the query", "_is_usual", "not scope['query_string']", "True"),
            ("operations take any method", "_is_usual", "scope['method'] == 'POST'", "True"),
            (
                "operations take any media type",
                "_is_usual",
                "is_plain_json(exchange.headers.get(b'content-type', b''))",
                "True",
            ),
            ("declared lengths are not checked", "_admitted", "refusal is not None", "False"),
            ("errors of an operation are internal", "_operate", "WagerError", "LookupError"),
        ),
    ),
    Errors(
        concept="exchange at the gate",
        home="Exchange",
        laws=(
            "test_both_ways_answer_alike",
            "test_both_ways_check_keys_alike",
            "test_every_answer_has_the_security_headers",
            "test_the_request_id_returns_in_answers_and_problems",
            "test_a_client_reads_the_same_bytes",
            "test_a_body_that_has_arrived_is_recognized",
            "test_requests_over_the_limit_of_a_key_are_refused",
            "test_pages_of_a_listed_origin_read_answers_and_refusals",
        ),
        errors=(
            (
                "limits of a key are not shown",
                "_complete",
                "(*self.more_headers, (b'x-request-id', self.notes.request_id.encode()))",
                "((b'x-request-id', self.notes.request_id.encode()),)",
            ),
            ("CORS is skipped", "wrap", "self._wrapped, self.one_write = (send, None)", ""),
            (
                "one write lacks the length",
                "_head",
                "b'%b%bcontent-length: %b\\r\\nx-request-id: %b\\r\\n'",
                "b'%b%bcontent-size: %b\\r\\nx-request-id: %b\\r\\n'",
            ),
        ),
    ),
    Errors(
        concept="one write",
        home="_OneWrite",
        laws=("test_a_client_reads_the_same_bytes", "test_a_body_that_has_arrived_is_recognized"),
        errors=(
            ("keeps a connection open", "write", "cycle.transport.close()", "pass"),
            ("the next request never begins", "write", "cycle.on_response()", "pass"),
            ("does not say that it closes", "write", "lines.append(b'connection: close\\r\\n')", "pass"),
            ("every body has arrived", "body_has_arrived", "not self._cycle.more_body", "True"),
            ("writes are apart", "write", "cycle.disconnected", "True"),
        ),
    ),
    Errors(
        concept="places in flight",
        home="Places",
        laws=(
            "test_a_full_worker_refuses_requests",
            "test_requests_without_a_key_have_separate_places",
            "test_half_sent_webhooks_do_not_delay_others",
        ),
        errors=(("one kind of place", "InFlight.places", "self._open if open_path else self._keyed", "self._keyed"),),
    ),
    Errors(
        concept="batch",
        home="Batcher",
        laws=("test_items_of_one_tick_are_one_batch",),
        errors=(("results in reverse order", "_run", "results", "results[::-1]"),),
    ),
    Errors(
        concept="confirmation",
        home="Confirmed",
        laws=("test_unreplicated_feedback_is_not_acknowledged",),
        errors=(("any number of replicas is enough", "call", "replicas < self._replicas", "False"),),
    ),
)
