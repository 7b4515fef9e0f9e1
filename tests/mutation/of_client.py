"""Errors in the client and in calls from a browser: lost or doubled feedback, unsafe repeats, open origins."""

from tests.mutation.mutation import Errors

CLIENT = (
    Errors(
        concept="client retries",
        home="Attempts",
        laws=(
            "test_only_what_may_help_and_cannot_harm_is_repeated",
            "test_no_attempt_begins_after_the_deadline",
            "test_retry_after_is_a_lower_bound",
            "test_an_attempt_that_hangs_leaves_time_for_the_next",
        ),
        errors=(
            ("unsafe requests are repeated", "wait_after", "not self._repeatable", "False"),
            ("after the deadline", "wait_after", "wait >= self.left()", "False"),
            ("Retry-After is ignored", "wait_after", "max(wait, error.retry_after)", "wait"),
            ("one attempt takes all the time", "begin", "self.left() / 2", "self.left()"),
            (
                "half a minute for a dead worker",
                "begin",
                "min(LONGEST_ATTEMPT, max(self.left() / 2, _LEAST_SHARE))",
                "max(self.left() / 2, _LEAST_SHARE)",
            ),
        ),
    ),
    Errors(
        concept="client calls",
        laws=(
            "test_every_attempt_has_the_same_id",
            "test_the_default_answers_while_the_service_is_away",
            "test_a_refusal_is_no_outage",
        ),
        errors=(
            ("no id before the first attempt", "operations.predict", "new_id()", "None"),
            ("a default hides refusals", "client.Wager.predict", "not error.is_away", "False"),
        ),
    ),
    Errors(
        concept="client queue",
        home="Outbox",
        laws=(
            "test_each_result_has_its_count",
            "test_a_full_queue_drops_by_its_rule",
            "test_a_full_queue_drops_the_oldest_of_all_models",
            "test_everything_arrives_once_through_failures",
        ),
        errors=(
            ("failures of the service are final", "_note_results", "may_succeed(result)", "False"),
            ("a failed request is lost", "_note_error", "pool.put_back(sent)", ""),
            ("the newest goes", "_drop_orders", "entries[0].number", "-entries[0].number"),
        ),
    ),
    Errors(
        concept="client arguments",
        laws=("test_wrong_arguments_are_refused_by_name", "test_wrong_options_are_refused_by_name"),
        errors=(
            (
                "any object is a prediction",
                "operations.id_of",
                "found is not None and not isinstance(found, str)",
                "False",
            ),
            ("a default is checked when it is needed", "operations.predict", "checks.default(default)", ""),
            ("NaN seconds", "checks.number", "value >= least", "not value < least"),
        ),
    ),
    Errors(
        concept="client queue file",
        home="Spool",
        laws=(
            "test_damaged_lines_are_set_aside_and_the_others_are_sent",
            "test_a_file_of_another_kind_is_refused",
            "test_a_fork_cannot_lose_feedback",
        ),
        errors=(
            ("damage is thrown away", "__init__", "self._set_aside(damaged)", ""),
            ("another kind of file is emptied", "_read", "len(found.damaged) == len(lines)", "False"),
            ("an entry without an id", "_apply", "not isinstance(FeedbackItem(**line).prediction_id, str)", "False"),
        ),
    ),
    Errors(
        concept="client queue in a fork",
        laws=("test_a_fork_cannot_lose_feedback",),
        errors=(
            ("feedback is taken and lost", "queues.refuse_fork", "os.getpid() != pid", "False"),
            ("the file goes", "FeedbackQueue.close", "os.getpid() != self._pid", "False"),
        ),
    ),
    Errors(
        concept="client queue requests",
        laws=("test_a_request_that_hangs_does_not_stop_the_queue",),
        errors=(
            (
                "one request hangs for a minute",
                "FeedbackQueue.__init__",
                "min(client.timeout, LONGEST_ATTEMPT)",
                "client.timeout",
            ),
        ),
    ),
    Errors(
        concept="cors",
        home="Cors",
        laws=("test_other_origins_are_answered_as_without_cors",),
        errors=(
            (
                "every origin is allowed",
                "Cors.__call__",
                "Headers(scope=scope).get('origin') in self.allow_origins",
                "True",
            ),
        ),
    ),
)
