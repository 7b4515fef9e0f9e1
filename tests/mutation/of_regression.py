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
        concept="fastcb",
        home="FastCb",
        laws=(
            "test_models_match_the_plain_ones",
            "test_relative_gaps_match_the_formula",
            "test_restart_forgets_everything_but_scales",
        ),
        errors=(
            ("exploration by rounds", "_decide", "state.counts[_MISTAKES]", "state.counts[_ROUNDS]"),
            ("no least γ", "_decide", "_LEAST_GAP_WEIGHT * K", "0.0"),
            ("no uniform share", "_decide", "parameters.least_exploration", "0.0"),
            ("growth left out", "_fold", "parameters.growth", "1.0"),
            ("right answers count as mistakes", "_fold", "0 if right else 1", "1"),
            ("all rounds in the step", "_fold", "counts[_ROUNDS] / sums[_SIZES]", "1.0 / sums[_SIZES]"),
            ("no restart", "_fold", "_restart(W, G, V, H, sums, counts)", ""),
            (
                "mistakes kept at a restart",
                "_restart",
                "counts[_ROUNDS] = counts[_MISTAKES] = 0",
                "counts[_ROUNDS] = 0",
            ),
        ),
    ),
    Errors(
        concept="logistic mixture",
        home="teach_softmax",
        laws=("test_models_match_the_plain_ones", "test_mixture_costs_at_most_ln_2", "test_weights_are_clipped"),
        errors=(
            ("sign of the served label", "_write_gradient", "q[label] -= 1.0", "q[label] += 1.0"),
            ("others not renormalized", "_write_gradient", "-served / others", "-served"),
            ("steps without a bound", "_bounded", "step if change <= most else step * most / change", "step"),
            (
                "weights not clipped",
                "_moved",
                "min(_LARGEST_WEIGHT, max(-_LARGEST_WEIGHT, weight - step))",
                "weight - step",
            ),
            ("only the present gradient", "teach_label", "G[i, k] + g * g", "g * g"),
            ("sign of the posterior", "share_of_softmax", "label_loss - softmax_loss", "softmax_loss - label_loss"),
        ),
    ),
    Errors(
        concept="feature scales",
        home="measure",
        laws=("test_models_match_the_plain_ones", "test_extreme_values_keep_the_model"),
        errors=(
            (
                "outliers not clipped in the scale",
                "measure",
                "min(LARGEST_VALUE, x / scales[i, 0])",
                "x / scales[i, 0]",
            ),
            ("values not clipped", "_relative", "min(LARGEST_VALUE, max(-LARGEST_VALUE, x / scale))", "x / scale"),
            ("sum of sizes not squared", "measure", "z[position] ** 2", "abs(z[position])"),
        ),
    ),
    Errors(
        concept="feature rows",
        home="to_rows",
        laws=(
            "test_rows_are_in_order_of_first_occurrence",
            "test_reading_adds_nothing",
            "test_full_table_stops_or_ignores",
            "test_corrupt_table_stays_inside_its_arrays",
        ),
        errors=(
            ("reading adds rows", "to_rows", "mode != READ", "True"),
            ("nothing counted as ignored", "to_rows", "counts[IGNORED] += 1", ""),
            ("rows of other features", "_find", "features[found] == feature", "True"),
            (
                "rows beyond the arrays",
                "rows_in_use",
                "min(int(rows.counts[USED]), len(rows.features))",
                "int(rows.counts[USED])",
            ),
        ),
    ),
    Errors(
        concept="change test",
        home="detect_change",
        laws=("test_restart_forgets_everything_but_scales", "test_false_restarts_are_as_rare_as_promised"),
        errors=(
            (
                "right answers as evidence",
                "detect_change",
                "math.log((1.0 - changed) / (1.0 - usual))",
                "0.1",
            ),
            ("evidence below zero kept", "detect_change", "test[_EVIDENCE] = 0.0", "pass"),
            (
                "any evidence suffices",
                "detect_change",
                "test[_EVIDENCE] > threshold and test[_EXCESS] > 0.0",
                "test[_EXCESS] > 0.0",
            ),
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
