"""Errors in drawing answers and in exploration: propensities, ties, schedules."""

from tests.mutation.mutation import Errors

EXPLORATION = (
    Errors(
        concept="drawing",
        laws=(
            "test_draw_returns_a_possible_label_at_the_edges",
            "test_draw_inverts_the_cumulative_distribution",
            "test_propensities_are_in_range_for_any_distribution",
        ),
        errors=(
            ("cumulative probability without the label's own", "draw_one", "cumulated + probability", "cumulated"),
            ("a last label of probability zero", "draw_one", "probability > 0.0", "probability >= 0.0"),
            ("the leader's propensity", "draw_into", "distributions[i, labels[i]]", "distributions[i].max()"),
            ("a propensity above 1", "as_propensity", "min(1.0, max(LEAST_PROPENSITY, probability))", "probability"),
            (
                "the whole uniform in place of the residual",
                "draw_into",
                "(uniforms[i] - before) / propensities[i]",
                "uniforms[i]",
            ),
        ),
    ),
    Errors(
        concept="distribution",
        laws=(
            "test_leader_is_the_first_of_the_largest_scores",
            "test_answer_mixes_by_the_larger_of_gap_and_rate",
            "test_newtron::test_micro_trace",
        ),
        errors=(
            ("the last of the tied leaders", "leader", "scores[k] > scores[best]", "scores[k] >= scores[best]"),
            (
                "γ/(K - 1) on all labels but the leader",
                "mix_with_uniform",
                "distribution[:] = share / len(distribution)",
                "distribution[:] = share / (len(distribution) - 1)\ndistribution[top] = 0.0",
            ),
            ("softmax without the shift", "softmax", "scores[k] - top", "scores[k]"),
        ),
    ),
    Errors(
        concept="softened distribution",
        laws=("test_newtron::test_micro_trace",),
        errors=(("γ/(K - 1) on every label", "soften", "share / K", "share / (K - 1)"),),
    ),
    Errors(
        concept="inverse gap weighting",
        laws=("test_exploration_matches_the_formula", "test_regret_is_bounded_by_the_regression_error"),
        errors=(
            (
                "the leader without the remaining probability",
                "weigh_by_gap",
                "(1.0 - share) * (1.0 - others)",
                "(1.0 - share) / K",
            ),
            (
                "1 in place of K",
                "weigh_by_gap",
                "K + gap_weight * (values[top] - values[k])",
                "1.0 + gap_weight * (values[top] - values[k])",
            ),
            ("uniform share added without scaling", "weigh_by_gap", "(1.0 - share) * probability", "probability"),
            ("gap not weighted", "weigh_by_gap", "gap_weight", "1.0"),
        ),
    ),
    Errors(
        concept="adaptive exploration",
        laws=(
            "test_adaptive_rate_matches_theorem_5",
            "test_traces::test_micro_trace",
        ),
        errors=(
            ("t one too large", "adaptive_rate", "rounds + 1", "rounds + 2"),
            ("without the 1", "adaptive_rate", "1.0 + quadratic_sum", "quadratic_sum"),
            ("without K", "adaptive_rate", "n_labels * (1.0 + quadratic_sum)", "1.0 + quadratic_sum"),
        ),
    ),
    Errors(
        concept="falling exploration",
        laws=(
            "test_traces::test_micro_trace[banditron]",
            "test_falling_exploration",
        ),
        errors=(
            ("t one too large", "scheduled_rate", "rounds + 1.0", "rounds + 2.0"),
            ("without the floor", "scheduled_rate", "max(schedule.least, falling)", "falling"),
            (
                "not capped at 1",
                "scheduled_rate",
                "min(1.0, max(schedule.least, falling))",
                "max(schedule.least, falling)",
            ),
            ("always a square root", "scheduled_rate", "schedule.power", "0.5"),
        ),
    ),
    Errors(
        concept="problem",
        home="Learner",
        laws=("test_invalid_problems_are_refused",),
        errors=(("E22, a single label", "Problem", "pydantic.Field(ge=2)", "pydantic.Field(ge=1)"),),
    ),
    Errors(
        concept="norm policy",
        laws=("test_policies_bring_rows_within_the_bound",),
        errors=(
            (
                "bound ignored",
                "Preparation",
                "math.sqrt(0.75) * self.bound if self.intercept else self.bound",
                "1.0",
            ),
        ),
    ),
)
