"""Errors in the gate: checks that an operation skips, headers that it lacks, responses that are not whole."""

from tests.mutation.mutation import Errors

GATE = (
    Errors(
        concept="gate",
        home="Gate",
        laws=(
            "test_both_ways_refuse_alike",
            "test_both_ways_answer_alike",
            "test_both_ways_read_alike",
            "test_both_ways_limit_bodies_alike",
            "test_both_ways_check_keys_alike",
        ),
        errors=(
            ("operations ignore the query", "_is_usual", "not scope['query_string']", "True"),
            ("operations take any method", "_is_usual", "scope['method'] == 'POST'", "True"),
            (
                "operations take any media type",
                "_is_usual",
                "is_plain_json(exchange.headers.get(b'content-type', b''))",
                "True",
            ),
            ("declared lengths are not checked", "Gate._admitted", "refusal is not None", "False"),
            (
                "a body is not given to FastAPI",
                "_replay",
                "[{'type': 'http.request', 'body': body, 'more_body': False}]",
                "[]",
            ),
            ("errors of an operation are internal", "Gate._operate", "WagerError", "LookupError"),
        ),
    ),
    Errors(
        concept="exchange",
        home="Exchange",
        laws=(
            "test_both_ways_answer_alike",
            "test_both_ways_check_keys_alike",
            "test_every_answer_has_the_security_headers",
            "test_the_request_id_returns_in_answers_and_problems",
            "test_a_client_reads_the_same_bytes",
            "test_a_body_that_has_arrived_is_recognized",
            "test_a_refused_request_leaves_no_cycles",
        ),
        errors=(
            (
                "no security headers",
                "complete",
                "headers + [each for each in _ADDED if each[0] not in there]",
                "headers",
            ),
            ("limits of a key are not shown", "Exchange._complete", "*self.more_headers", "*()"),
            ("CORS is skipped", "Exchange.wrap", "self._wrapped, self.one_write = (send, None)", ""),
            (
                "one write lacks the length",
                "Exchange._head",
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
            ("keeps a connection open", "_OneWrite.write", "cycle.transport.close()", "pass"),
            ("the next request never begins", "_OneWrite.write", "cycle.on_response()", "pass"),
            ("does not say that it closes", "_OneWrite.write", "lines.append(b'connection: close\\r\\n')", "pass"),
            ("every body has arrived", "_OneWrite.body_has_arrived", "not self._cycle.more_body", "True"),
            ("writes are apart", "_OneWrite.write", "cycle.disconnected or", "True or"),
        ),
    ),
    Errors(
        concept="places",
        home="Places",
        laws=(
            "test_a_full_worker_refuses_requests",
            "test_requests_without_a_key_have_separate_places",
            "test_half_sent_webhooks_do_not_delay_others",
        ),
        errors=(
            ("no limit", "Places.have_room", "self.taken < self.most", "True"),
            ("places are never free again", "Gate._limited", "places.taken -= 1", "pass"),
            ("one kind of place", "InFlight.places", "self._open if open_path else self._keyed", "self._keyed"),
        ),
    ),
)
