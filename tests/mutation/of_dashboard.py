"""Errors in the statistics that the dashboard shows, and in the verdicts on models."""

from tests.mutation.mutation import Errors

DASHBOARD = (
    Errors(
        concept="curve of rewards",
        home="extended_curve",
        laws=(
            "test_details_do_not_depend_on_the_division_of_the_log",
            "test_the_curve_covers_the_log_in_equal_buckets",
        ),
        errors=(("never widens", "extended_curve", "curve = _halved(curve)", "return curve"),),
    ),
    Errors(
        concept="sums by label",
        home="with_rounds",
        laws=("test_sums_by_label_match_a_plain_loop", "test_statistics_stay_small"),
        errors=(
            ("forgets the weights", "with_rounds", "1.0 / p[known]", "1.0 + 0.0 * p[known]"),
            (
                "counts only some labels of many",
                "with_rounds",
                "np.minimum(labels.astype(np.int64), MOST_LABELS)",
                "labels.astype(np.int64) % MOST_LABELS",
            ),
        ),
    ),
    Errors(
        concept="holdout in the statistics",
        home="_detailed",
        laws=("test_the_holdout_is_counted_apart", "test_sums_by_label_match_a_plain_loop"),
        errors=(("counted with the learner's rounds", "_detailed", "~held", "held | ~held"),),
    ),
    Errors(
        concept="verdict",
        home="verdict_of",
        laws=(
            "test_each_story_has_its_verdict",
            "test_full_information_needs_no_exploration",
            "test_a_retired_label_is_no_rival",
            "test_certain_decisions_that_a_constant_label_beats_have_collapsed",
        ),
        errors=(
            ("on too few rounds", "verdict_of", "latest.rounds < LEAST_ROUNDS", "latest.rounds < 1"),
            ("by the share of labels only", "_of_one_label", "other.low > value.high", "other.low > 2.0"),
            ("ignores rivals", "_of_one_label", "other.high >= value.low", "other.high >= 2.0"),
            ("a retired label is a rival", "_active", "k not in retired", "k not in ()"),
            ("ignores constant labels", "_of_several_labels", "best[1].low > earned.high", "best[1].low > 2.0"),
        ),
    ),
    Errors(
        concept="ETag of statistics",
        home="statistics",
        laws=("test_an_equal_answer_is_304",),
        errors=(("never matches", "_conditional", "tag in _TAG.findall(given)", "False"),),
    ),
)
