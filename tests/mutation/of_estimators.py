"""Errors in the estimators, the comparison of learners and the reading of labelled files."""

from tests.mutation.mutation import Errors

ESTIMATORS = (
    Errors(
        concept="estimator",
        home="Fitted",
        laws=("test_bandit_classifier::test_partial_fit_is_the_simulation",),
        errors=(
            ("mistakes counted as right", "_simulate", "played.mistakes.sum()", "(~played.mistakes).sum()"),
            ("no intercept", "_begin", "self.intercept", "False"),
        ),
    ),
    Errors(
        concept="estimator in batches",
        home="Fitted",
        laws=("test_bandit_classifier::test_batches_of_any_size_give_the_same_bits",),
        errors=(
            ("the state is forgotten", "_learnt", "self._state = state", "self._state = self.learner_.init()"),
            (
                "the seed starts anew",
                "_simulate",
                "self._rng.random(len(truths))",
                "generator(self.random_state).random(len(truths))",
            ),
        ),
    ),
    Errors(
        concept="estimator's checks",
        home="read_propensities",
        laws=("test_mismatches::test_bad_feedback_is_a_value_error",),
        errors=(("propensities of zero", "read_propensities", "propensities > 0.0", "propensities >= 0.0"),),
    ),
    Errors(
        concept="comparison",
        home="student_quantile",
        laws=(
            "test_differences_are_paired",
            "test_intervals_of_differences_widen_with_the_number_of_learners",
            "test_a_run_is_counted_at_its_checkpoints",
        ),
        errors=(
            ("no correction for the choice", "standings", "len(entrants) * (len(entrants) - 1) // 2", "1"),
            ("differences are not paired", "_standing", "run.error - other.error", "run.error - best.runs[0].error"),
        ),
    ),
    Errors(
        concept="settings of a comparison",
        home="_tuned",
        laws=("test_settings_are_selected_by_other_runs_than_those_that_measure",),
        errors=(("selected by the runs that measure", "_tuned", '"selection"', '"measurement"'),),
    ),
    Errors(
        concept="runs of a comparison",
        home="_order",
        laws=("test_a_run_equals_the_estimator",),
        errors=(("every seed has the same order and draws", "play", "run.seed", "0"),),
    ),
    Errors(
        concept="wager compare",
        home="FinishedRuns",
        laws=(
            "test_other_faults_end_with_one_line",
            "test_json_has_everything_and_a_second_run_resumes",
        ),
        errors=(
            ("runs of other data are used", "_read", "lines[0] != header", "False"),
            ("a torn line stays", "__init__", "len(whole) < len(text)", "False"),
        ),
    ),
)
