"""Misprints of the papers, and plausible wrong readings of them."""

from tests.mutation.mutation import Errors

LEARNERS: Errors = {
    "test_draw_returns_a_possible_label_at_the_edges": [
        ("drawing: a last label of probability zero", "draw_one", "probability > 0.0", "probability >= 0.0"),
        ("drawing: the leader's propensity", "draw_into", "distributions[i, labels[i]]", "distributions[i].max()"),
    ],
    "test_propensities_are_in_range_for_any_distribution": [
        (
            "drawing: a propensity above 1",
            "as_propensity",
            "min(1.0, max(LEAST_PROPENSITY, probability))",
            "probability",
        ),
    ],
    "test_draw_inverts_the_cumulative_distribution": [
        (
            "drawing: the whole uniform in place of the residual",
            "draw_into",
            "(uniforms[i] - before) / propensities[i]",
            "uniforms[i]",
        ),
    ],
    "test_newtron::test_micro_trace[newtron_full_ball]": [
        ("softened distribution: γ/(K - 1) on every label", "soften", "[k] + share / K", "[k] + share / (K - 1)"),
        (
            "gradient estimate: missing 1/p",
            "gradient_estimate",
            "(coefficients[label] - 1.0 if correct else coefficients[label]) / propensity",
            "coefficients[label] - 1.0 if correct else coefficients[label]",
        ),
        ("gradient estimate: the published ±1/K", "gradient_estimate", "[label] += size", "[label] = size / K"),
        ("gradient estimate: softmax without α", "gradient_estimate", "alpha * s[k]", "s[k]"),
        ("newtron: b without the curvature", "_fold", "(1.0 - kappa * beta * known) * c", "c"),
    ],
    "test_exploration_matches_the_formula": [
        (
            "inverse gap weighting: the leader without the remaining probability",
            "weigh_by_gap",
            "(1.0 - share) * (1.0 - others)",
            "(1.0 - share) / K",
        ),
        ("inverse gap weighting: 1 in place of K", "weigh_by_gap", "K + gap_weight *", "1.0 + gap_weight *"),
        ("squarecb: gap weight without K", "_decide", "K * (state.rounds.item() +", "1.0 * (state.rounds.item() +"),
    ],
    "test_adaptive_rate_matches_theorem_5": [
        ("adaptive exploration: without the 1", "adaptive_rate", "1.0 + quadratic_sum", "quadratic_sum"),
        ("adaptive exploration: without K", "adaptive_rate", "n_labels * (1.0 +", "(1.0 +"),
    ],
    "test_invalid_problems_are_refused": [
        ("problem: a single label", "Problem", "pydantic.Field(ge=2)", "pydantic.Field(ge=1)"),
    ],
    "test_gap_map_matches_the_formula": [
        (
            "surrogate loss: the hinge's gap as printed",
            "gap_share",
            "0.0 if _clear(margin, len(scores)) else 1.0 - margin",
            "1.0 - max(float(_clear(margin, len(scores))), margin)",
        ),
    ],
    "test_safe_steps_match_the_theorems": [
        ("gaptron schedule: smooth hinge step as printed", "safe_step", "4 * K * X**2", "2 * K * X**2"),
        (
            "gaptron schedule: smooth hinge step under bandit feedback as printed",
            "safe_step",
            "full[loss] * gamma / K",
            "(2 if loss == 'smooth_hinge' else 1) * full[loss] * gamma / K",
        ),
        (
            "gaptron schedule: logistic step under bandit feedback as printed, D = 1",
            "safe_step",
            "full[loss] * gamma / K",
            "full[loss] * ((1 - gamma) * math.exp(-2 * X) / K + gamma if loss == 'logistic' else gamma) / K",
        ),
    ],
    "test_explorations_match_the_theorems": [
        ("gaptron schedule: smooth hinge exploration as printed", "tuned_exploration", "2 * K**2 *", "4 * K**2 *"),
        (
            "gaptron schedule: logistic exploration as printed",
            "tuned_exploration",
            "K**2 * X**2 * D**2 / _LN2",
            "2 * K**2 * X**2",
        ),
    ],
    "test_the_gap_alone_explores_enough_for_theorem_4": [
        (
            "gaptron schedule: the least gap as printed",
            "least_gap",
            "min(0.5, q / (1.0 + q))",
            "math.exp(-2.0 * radius * problem.norm_bound)",
        ),
    ],
    "test_the_theorems_rate_minimizes_the_bound": [
        (
            "bandit reduction: a rate that falls despite the horizon",
            "ExploredRounds._fixed_rate",
            "self._best_rate(self.horizon)",
            "None",
        ),
    ],
    "test_tuned_rate_minimizes_the_bound_of_theorem_2": [
        ("soba: the rate for η in place of η(2 - η)", "ExactSoba.rate", "eta * (2.0 - eta)", "eta"),
    ],
    "test_fenchel_young::test_steps_match_the_formulas": [
        (
            "fenchel-young: Theorem 5.1's step in place of Theorem 4.3's",
            "fenchel_young._steps",
            "largest / 2.0",
            "largest",
        ),
    ],
    "test_traces::test_micro_trace[bandit_logistic_theorem]": [
        ("gaptron: missing 1/p", "gaptron._fold", "1.0 / rounds.propensities[t]", "1.0"),
    ],
    "test_anytime_exploration_falls_as_one_over_root_t": [
        ("gaptron: c/t in place of c²/t", "_schedule", "c * c", "c"),
    ],
    "test_traces::test_micro_trace[banditron]": [
        ("banditron: missing 1/p", "banditron._fold", "1.0 / rounds.propensities[t]", "1.0"),
        ("banditron: subtracts from the label served", "banditron._fold", ".evidence[t, 0]", ".labels[t]"),
    ],
    "test_perceptron_is_corrected_only_if_it_errs_now": [
        ("bandit perceptrons: present claims in place of the stored ones", "_correct_all", "not nobody and s", "s"),
    ],
    "test_adahedge::test_micro_trace": [
        ("adahedge: ln 2d in place of ln d", "_temperature", "math.log(d)", "math.log(2 * d)"),
        ("adahedge: sign of the mix loss", "_charge", "least - temperature *", "least + temperature *"),
    ],
    "test_theorem_7_bound_holds": [
        ("adahedge: 1 - c in place of 1 - 2c", "AdaHedge.bound", "2.0 * self.abstention_cost", "self.abstention_cost"),
        (
            "adahedge: variances of at most 1/16",
            "AdaHedge.bound",
            "math.sqrt(nats * rounds)",
            "math.sqrt(nats * rounds) / 2",
        ),
    ],
    "test_adaboost_trace": [
        ("boosting regression: the costs' indices", "costs_of", "result[y, k] =", "result[k, y] ="),
    ],
    "test_fold_does_not_depend_on_the_batch_size": [
        (
            "descent: the adaptive step by the sum to T as printed",
            "descend_all",
            "indices, values = row(contexts, t)\ndescend(steps, state, coefficients[t], indices, values)",
            "indices, values = row(contexts, t)\n"
            "later = [u for u in range(t + 1, len(known)) if known[u]]\n"
            "total = sum([squared_norm(coefficients[u]) * squared_norm(row(contexts, u)[1]) for u in "
            "later])\n"
            "state.gradient_sum[()] += total\n"
            "descend(steps, state, coefficients[t], indices, values)\n"
            "state.gradient_sum[()] -= total",
        ),
    ],
    "test_steps_and_bounds_match_hand_computation": [
        ("structured: Theorem 4.3's bound without 1 - a/2 as printed", "Structured.regret_bound", "1.0 - a / 2", "1"),
        ("structured: twice the step of Theorem 4.3", "Structured.step_sizes", "a / b", "2.0 * a / b"),
    ],
    "test_output_spaces::test_micro_trace[multilabel]": [
        ("output space: half the mixing probability", "OutputSpace._mixing", "2.0 * self.distance", "self.distance"),
    ],
    "test_constants_match_the_vertices": [
        (
            "ranking space: γ as printed",
            "Ranking.constants",
            "math.sqrt(3.0 / cubic)",
            "math.sqrt((2 * self.n_items + 1) / (6 * self.n_items * (self.n_items + 1))) / (self.n_items - 1)",
        ),
        ("slates: ν of any set", "FixedSize.constants", "math.sqrt(2.0)", "1.0"),
        ("slates: γ for losses that count a wrong label once", "steepness", "2.0 * math.sqrt(size", "math.sqrt(size"),
    ],
    "test_nearest_is_the_closest_vertex": [
        ("general decoder: the sizes of vertices left out", "Polytope.nearest", "1.0 - 2.0 * mean", "-2.0 * mean"),
    ],
    "test_surrogate_bounds_the_expected_loss": [
        ("crf: λ with the diameter instead of its square", "Crf.constants", "greatest**2", "greatest"),
    ],
    "test_no_vertex_is_ahead_of_the_nearest_point": [
        ("Frank-Wolfe: vertices keep negative weights", "frank_wolfe._step", "<= _LEAST_WEIGHT", "<= -1e9"),
    ],
    "test_output_spaces::test_micro_trace[permutahedron]": [
        ("ranking space: D² + 1 in the normalizer of the loss", "Ranking.target_loss", "**2 - 1.0", "**2 + 1.0"),
    ],
    "test_traces::test_micro_trace[soba]": [
        ("soba: the sign of the step", "soba._subtract", "weights[i, k] -= factor", "weights[i, k] += factor"),
        (
            "soba: rejected rounds in Q",
            "soba._update",
            "if state.margin_sum.item() + m < 0.0:\n    return",
            "if state.margin_sum.item() + m < 0.0:\n    state.quadratic_sum[()] += q\n    return",
        ),
        ("soba: ȳ including y", "_weigh", "(rounds.eligible, t, s, y)", "(rounds.eligible, t, s, -1)"),
        ("soba: W with A_(t-1)", "_learn", "c * (1.0 + delta) / (1.0 + q)", "c * (1.0 + delta)"),
        ("soba: Q with A_(t-1)", "_update", "q / (1.0 + q)", "q"),
    ],
    "test_traces::test_micro_trace[soba_low_rank]": [
        ("low-rank soba: the sign of the step", "soba_low_rank._step", "-step", "step"),
    ],
    "test_margin_test_is_exact": [
        (
            "low-rank soba: rejected rounds in Q",
            "soba_low_rank._update",
            "if state.margin_sum.item() + m < 0.0:\n    return",
            "if state.margin_sum.item() + m < 0.0:\n    state.quadratic_sum[()] += q\n    return",
        ),
    ],
    "test_step_is_the_online_newton_step": [
        ("soba-newton: l'' as printed", "_fold", "parameters.eta * margin", "0.5 * parameters.eta * margin"),
        ("soba-newton: 1 - η in place of 2 - η", "_fold", "2.0 - parameters.eta", "1.0 - parameters.eta"),
    ],
    "test_matrix_starts_with_the_theorems_constant": [
        ("soba-newton: ε without D", "_parameters", "4.0 * beta**2 * D**2", "4.0 * beta**2"),
        ("soba-newton: G without K", "_parameters", "16.0 * X * K", "16.0 * X"),
    ],
    "test_newtron::test_micro_trace[pnewtron_scale]": [
        ("pnewtron: b without the curvature", "pnewtron._fold", "1.0 - kappa * beta * known", "1.0"),
    ],
    "test_folklore::test_micro_trace": [
        ("folklore: G without -2γHW", "_gradient_and_factor", "sigma[k] - 2.0 * constant * r[k]", "sigma[k]"),
        (
            "folklore: the surrogate's constant as printed",
            "surrogate_constant",
            "2.0 * comparator_bound * norm_bound + math.log(n_labels) + 2.0",
            "comparator_bound * norm_bound + math.log(n_labels) / 2.0",
        ),
    ],
    "test_folklore::test_long_trace": [
        ("folklore: the bound without the 1/4", "regret_bound", "4.0 * constant", "constant"),
    ],
    "test_exploring_coin_is_uniform": [
        ("bandit reduction: the coin without 1/K", "explored", "-1] / counts_of(rounds.eligible, n_labels)", "-1]"),
        (
            "bandit reduction: the coin without the propensity",
            "explored",
            "rounds.residual_uniforms * rounds.propensities",
            "rounds.residual_uniforms",
        ),
    ],
    "test_theorem_4_1_bound_holds": [
        ("bandit reduction: γ/(K - 1) on every label", "ExploredRounds.decide_unchecked", "n_labels", "n_labels - 1"),
    ],
    "test_anytime_rate_matches_the_formula": [
        (
            "bandit reduction: rate without K",
            "ExploredRounds._best_rate",
            "self.problem.n_labels * regret",
            "regret",
        ),
    ],
    "test_the_mean_of_every_unbiased_term_is_the_value_by_enumeration": [
        ("off-policy estimates: propensities are left out", "terms_of", "(rounds) / rounds.propensities", "(rounds)"),
    ],
    "test_empirical_bernstein_is_theorem_4_for_both_sides": [
        ("empirical Bernstein: one side only", "empirical_bernstein", "4.0 / (1.0 - level)", "2.0 / (1.0 - level)"),
    ],
}
