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
        concept="deadlines",
        laws=(
            "test_a_silent_client_loses_its_connection",
            "test_requests_set_no_timers",
            "test_pipelined_requests_are_limited",
            "test_trailers_are_limited",
            "test_a_closed_connection_is_freed_at_once",
        ),
        errors=(
            ("each request sets a timer", "_Watch.expect", "self._timer is None", "True"),
            ("the timer fires at its tick only", "_Watch._look", "min(self._at, now + self._tick)", "now + self._tick"),
            ("a deadline that moved expires", "_Watch._look", "now >= self._at", "True"),
            (
                "a head may take any time",
                "TimedProtocol._note_part_of_head",
                "self._watch.expect(self._deadlines.head)",
                "pass",
            ),
            ("bodies are always read", "TimedProtocol.on_response_complete", "self.cycle.more_body", "False"),
            (
                "a body read late has its old deadline",
                "TimedProtocol.on_message_complete",
                "self._watch.expect(self.timeout_keep_alive)",
                "pass",
            ),
            (
                "any number of pipelined requests",
                "TimedProtocol.on_headers_complete",
                "len(self.pipeline) > _MOST_PIPELINED",
                "False",
            ),
            ("any number of trailers", "TimedProtocol.data_received", "len(self.headers) > _MOST_HEADERS", "False"),
            (
                "a closed connection is a cycle",
                "_Watch.end",
                "self._at, self._expire = (math.inf, _nothing)",
                "self._at = math.inf",
            ),
            ("a slow application is cut off", "TimedProtocol._expire", "self.cycle.response_complete", "True"),
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
        laws=(
            "test_items_of_one_tick_are_one_batch",
            "test_responses_leave_before_the_next_batch_starts",
            "test_only_full_batches_run_beside_another",
            "test_items_submitted_together_stay_together",
        ),
        errors=(
            ("results in reverse order", "_run", "results[start:stop]", "results[::-1][start:stop]"),
            ("the next batch starts before the responses leave", "_end", "_TURNS_BETWEEN", "0"),
            ("any batch runs beside another", "_may_start", "self._n_waiting >= self._room()()", "True"),
            ("any number of batches run", "_may_start", "len(self._running) < self._at_once", "True"),
            ("a batch has any size", "_next_batch", "len(self._waiting[0].items) <= room", "True"),
        ),
    ),
    Errors(
        concept="confirmation",
        home="Confirmed",
        laws=("test_unreplicated_feedback_is_not_acknowledged",),
        errors=(("any number of replicas is enough", "call", "replicas < self._replicas", "False"),),
    ),
)
