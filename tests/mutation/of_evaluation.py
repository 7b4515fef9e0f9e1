"""Errors in off-policy evaluation: estimators, intervals, the split of logs, and the checks of files."""

from tests.mutation.mutation import Errors

_SPLITS = "test_sums_are_equal_in_every_split"
_FORMULAS = "test_the_estimates_are_their_formulas"
_ENUMERATED = "test_the_mean_of_every_unbiased_term_is_the_value_by_enumeration"

EVALUATION = (
    Errors(
        concept="off-policy estimates",
        laws=(_ENUMERATED, _FORMULAS),
        errors=(
            (
                "propensities are left out",
                "terms_of",
                "policy.chances(rounds) / rounds.propensities",
                "policy.chances(rounds)",
            ),
            ("the direct method counts twice", "_sum_block", "rewards - terms.predicted", "rewards"),
            ("replay keeps too many", "_replay_level", "math.ceil(math.log2(max(sums.largest, 1.0)))", "0"),
        ),
    ),
    Errors(
        concept="off-policy sums",
        laws=(_SPLITS, "test_the_reward_model_of_a_block_does_not_depend_on_later_rounds"),
        errors=(
            (
                "the largest weight is that of the last part",
                "Sums.merge",
                "max(self.largest, other.largest)",
                "other.largest",
            ),
            ("the model of a block learns from it", "RewardModel.predict", "last < block", "last <= block"),
        ),
    ),
    Errors(
        concept="empirical Bernstein",
        home="empirical_bernstein",
        laws=("test_empirical_bernstein_is_theorem_4_for_both_sides",),
        errors=(("one side only", "empirical_bernstein", "log(4.0 / (1.0 - level))", "log(2.0 / (1.0 - level))"),),
    ),
    Errors(
        concept="evaluation in the service",
        home="LatestRounds",
        laws=(
            "test_only_the_latest_rounds_count",
            "test_the_holdout_is_a_policy_of_its_own",
            "test_estimates_never_run_in_the_event_loop",
        ),
        errors=(
            (
                "few rounds block the event loop",
                "LatestRounds.evaluate",
                "self._compute.run(name, _values, model, pages, limit < most)",
                "self._compute.run_in_thread_if_costly(0, name, _values, model, pages, limit < most)",
            ),
            ("the first rounds", "LatestRounds.evaluate", "max(0, stored.round_count - limit)", "0"),
            ("the holdout is served", "_values", "~rounds.holdout", "rounds.holdout | True"),
        ),
    ),
)
