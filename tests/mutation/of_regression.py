"""Errors in the learners that regress the reward on the context: SquareCB and ε-greedy ridge."""

from tests.mutation.mutation import Errors

REGRESSION = (
    Errors(
        concept="squarecb",
        home="SquareCb",
        laws=(
            "test_exploration_matches_the_formula",
            "test_regression_matches_the_plain_one",
            "test_tiny_contexts_keep_the_state_finite",
        ),
        errors=(
            (
                "sign of the residual",
                "_update",
                "1.0 / (1.0 + math.exp(-s)) - reward",
                "reward - 1.0 / (1.0 + math.exp(-s))",
            ),
            ("wrong answers rewarded", "_fold", "1.0 if rounds.correct[t] else 0.0", "1.0"),
            (
                "steps weighted by 1/p",
                "_fold",
                "parameters.learning_rate",
                "parameters.learning_rate / rounds.propensities[t]",
            ),
            (
                "gap weight without K",
                "_decide",
                "K * (state.rounds.item() + 1.0)",
                "1.0 * (state.rounds.item() + 1.0)",
            ),
            ("t one too large", "_decide", "state.rounds.item() + 1.0", "state.rounds.item() + 2.0"),
            (
                "γ grows with t",
                "_decide",
                "parameters.gap_scale * math.sqrt(K * (state.rounds.item() + 1.0))",
                "parameters.gap_scale * K * (state.rounds.item() + 1.0)",
            ),
            ("no uniform share", "_decide", "parameters.least_exploration", "0.0"),
            ("weight not rescaled when a feature grows", "_measure", "state.sizes[i] / x", "1.0"),
            ("relative sizes not squared", "_measure", "(x / state.sizes[i])**2", "x / state.sizes[i]"),
            ("weights not clipped", "_update", "min(largest, max(-largest, moved))", "moved"),
            ("only the present gradient", "_update", "state.gradient_sums[i, k] + g * g", "g * g"),
            ("missing square root", "_update", "math.sqrt(total)", "total"),
            (
                "steps not scaled by the feature's size",
                "_update",
                "step * (g / math.sqrt(total)) / state.sizes[i]",
                "step * (g / math.sqrt(total))",
            ),
            ("t off by one in the step", "_update", "state.rounds.item()", "state.rounds.item() + 1.0"),
        ),
    ),
    Errors(
        concept="ridge",
        home="EpsilonGreedyRidge",
        laws=(
            "test_state_solves_the_normal_equations",
            "test_epsilon_greedy_ridge::test_falling_exploration",
            "test_only_the_served_label_learns",
            "test_matrix_is_the_sum_of_the_updates",
            "test_damaged_inverse_is_rebuilt",
            "test_sparse_contexts_equal_dense_ones[epsilon-greedy-ridge]",
        ),
        errors=(
            ("wrong answers rewarded", "_fold", "1.0 if rounds.correct[t] else 0.0", "1.0"),
            ("W with the old inverse", "_update", "(reward - prediction) / (1.0 + q)", "reward - prediction"),
            ("label 0 learns in place of the label served", "_update", "state.weights[:, k]", "state.weights[:, 0]"),
            ("sign of the inverse update", "_update", "-1.0 / (1.0 + q)", "1.0 / (1.0 + q)"),
            ("t one too large", "_decide", "state.rounds.item()", "state.rounds.item() + 1"),
            (
                "no floor of the theorem's exploration",
                "_schedule",
                "Schedule(float(K), 1 / 3, learner.least_exploration)",
                "Schedule(float(K), 1 / 3, 0.0)",
            ),
            ("square root in place of cube root", "_schedule", "1 / 3", "1 / 2"),
            ("A starts as I/a", "init", "1.0 / self.regularization", "self.regularization"),
            ("one matrix for all labels", "_update", "state.matrices[k]", "state.matrices[0]"),
            ("targets include wrong answers", "_update", "reward * x[i]", "x[i]"),
        ),
    ),
)
