"""Errors in what surrounds the routes: supervision, places, batches, HEAD, confirmation."""

from tests.mutation.mutation import Errors

GATE = (
    Errors(
        concept="supervision",
        laws=("test_a_death_ends_the_wait_for_a_health_check",),
        errors=tuple(
            (
                f"the ends of workers stay open after {name}",
                f"Supervisor.{name}",
                "self._close_ends_of_workers()",
                "pass",
            )
            for name in ("init_processes", "keep_subprocess_alive")
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
        errors=(
            (
                "one kind of place",
                "InFlight.take",
                "self._open if open_path else self._keyed",
                "self._keyed",
            ),
        ),
    ),
    Errors(
        concept="batch",
        home="GroupCommit",
        laws=(
            "test_what_arrives_while_an_item_is_in_flight_is_handled_together",
            "test_no_batch_exceeds_its_room",
            "test_responses_leave_before_the_next_batch_starts",
            "test_only_full_batches_run_beside_another",
            "test_items_submitted_together_stay_together",
        ),
        errors=(
            ("results in reverse order", "_run", "results[start:stop]", "results[::-1][start:stop]"),
            ("the next batch starts before the responses leave", "_end", "_TURNS_BETWEEN", "0"),
            ("any batch runs beside another", "_queue", "is_full", "True"),
            ("any number of batches run", "_queue", "self._in_flight < self._at_once", "True"),
            ("a batch has any size", "_next_batch", "len(self._waiting[0].items) <= room", "True"),
        ),
    ),
    Errors(
        concept="HEAD",
        laws=("test_other_methods_are_refused_with_the_allowed_ones",),
        errors=(("HEAD is another method than GET", "Observer.__call__", "scope['method'] == 'HEAD'", "False"),),
    ),
    Errors(
        concept="confirmation",
        home="Confirmed",
        laws=("test_unreplicated_feedback_is_not_acknowledged",),
        errors=(("any number of replicas is enough", "_call_and_wait", "replicas < self._replicas", "False"),),
    ),
)
