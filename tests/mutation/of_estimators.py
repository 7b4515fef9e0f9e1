"""Errors in the comparison of learners. Laws that need compiled simulations cannot run here."""

from tests.mutation.mutation import Errors

ESTIMATORS = (
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
        concept="rows of an estimator",
        home="_of_objects",
        laws=("test_every_wrong_argument_is_a_value_error", "test_sparse_matrices_are_sparse_contexts"),
        errors=(
            ("infinity is a number", "_check_finite", "~np.isfinite(values)", "np.isnan(values)"),
            ("repeated entries stay", "_sparse", "rows.sum_duplicates()", "rows.sort_indices()"),
        ),
    ),
    Errors(
        concept="arguments of an estimator",
        laws=("test_every_wrong_argument_is_a_value_error", "test_what_needs_classes_says_so"),
        errors=(
            ("what is masked is read", "inputs.as_array", "np.ma.is_masked(row)", "False"),
            ("half right", "inputs.read_bits", "(bits == 0.0) | (bits == 1.0)", "(bits >= 0.0) & (bits <= 1.0)"),
            (
                "settings without names",
                "setup.hyperparameters_of",
                "given is not None and not isinstance(given, Mapping)",
                "False",
            ),
            (
                "classes before the check",
                "BanditClassifier.predict",
                "places = np.argmax(self.predict_proba(X), axis=1)\nmost_probable: AnyArray = self.classes_[places]",
                "most_probable: AnyArray = self.classes_[np.argmax(self.predict_proba(X), axis=1)]",
            ),
        ),
    ),
    Errors(
        concept="processes",
        home="Processes",
        laws=("test_processes_end_with_their_context",),
        errors=(
            ("they stay", "close", "executor is not self._before", "False"),
            ("those of others end", "close", "executor is not self._before", "True"),
        ),
    ),
    Errors(
        concept="classes of an estimator",
        home="sorted_classes",
        laws=("test_classes_of_any_type",),
        errors=(("an unknown class is the first", "numbered", "places.get(value, -1)", "places.get(value, 0)"),),
    ),
    Errors(
        concept="defaults of an estimator",
        home="set_up",
        laws=("test_the_defaults_are_those_of_the_learner",),
        errors=(
            ("one norm policy for all", "_features_of", 'choice.norm == "default"', 'choice.norm == "?"'),
            ("an intercept is no feature", "set_up", "n_features + intercept", "n_features"),
        ),
    ),
    Errors(
        concept="settings of a comparison",
        home="_tuned",
        laws=("test_settings_are_selected_by_other_runs_than_those_that_measure",),
        errors=(("selected by the runs that measure", "_tuned", '"selection"', '"measurement"'),),
    ),
    Errors(
        concept="wager compare",
        home="FinishedRuns",
        laws=("test_other_faults_end_with_one_line",),
        errors=(("runs of other data are used", "_read", "lines[0] != header", "False"),),
    ),
)
