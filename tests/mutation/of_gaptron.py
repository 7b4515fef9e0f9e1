"""Errors in Gaptron: losses, gap maps and steps, including errata of its paper."""

from tests.mutation.mutation import Errors

GAPTRON = (
    Errors(
        concept="surrogate loss",
        home="gap_share",
        laws=(
            "test_loss_matches_the_formula",
            "test_coefficients_match_the_derivative",
            "test_gap_map_matches_the_formula",
            "test_full_information_bounds_hold",
        ),
        errors=(
            ("logistic gradient in nats", "_logistic", "math.log(2.0)", "1.0"),
            ("logistic loss in nats", "_logistic", "math.log2", "math.log"),
            ("β = 0", "_clear", "(1.0 - _TIE_SLACK) / n_labels", "0.0"),
            ("hinge without the zero branch", "_hinge", "_clear(margin, n_labels)", "margin >= 1.0"),
            (
                "E5, the hinge's gap as printed",
                "gap_share",
                "0.0 if _clear(margin, len(scores)) else 1.0 - margin",
                "1.0 - max(float(_clear(margin, len(scores))), margin)",
            ),
            ("sign of the gradient", "surrogate", "-slope", "slope"),
            ("smooth hinge slope of 1", "_smooth_hinge", "(1.0 - 2.0 * margin, 2.0)", "(1.0 - 2.0 * margin, 1.0)"),
            ("smooth hinge gap not squared", "gap_share", "shortfall * shortfall", "shortfall"),
            ("logistic gap on the wrong side of 1/2", "gap_share", "0.5", "0.4"),
            ("the leader as its own rival", "gap_share", "leader_except(scores, top)", "top"),
        ),
    ),
    Errors(
        concept="gaptron schedule",
        home="safe_step",
        laws=("test_safe_steps_match_the_theorems", "test_explorations_match_the_theorems"),
        errors=(
            ("E1, smooth hinge step as printed", "safe_step", "4 * K * X**2", "2 * K * X**2"),
            (
                "E2, smooth hinge exploration as printed",
                "tuned_exploration",
                "2 * K**2 * X**2 * D**2",
                "4 * K**2 * X**2 * D**2",
            ),
            (
                "E2, smooth hinge step under bandit feedback as printed",
                "safe_step",
                "full * gamma / K",
                "(2 if loss == 'smooth_hinge' else 1) * full * gamma / K",
            ),
            (
                "E3, logistic step under bandit feedback as printed, D = 1",
                "safe_step",
                "full * gamma / K",
                "full * ((1 - gamma) * math.exp(-2 * X) / K + gamma if loss == 'logistic' else gamma) / K",
            ),
            (
                "E4, logistic exploration as printed",
                "tuned_exploration",
                "K**2 * X**2 * D**2 / _LN2",
                "2 * K**2 * X**2",
            ),
            ("bandit step with K in place of K²", "safe_step", "full * gamma / K", "full * gamma"),
            ("logistic step without ln 2", "safe_step", "_LN2 / (2 * K * X**2)", "1 / (2 * K * X**2)"),
            ("hinge step without 1 - β", "safe_step", "(K - 1) / (K**2 * X**2)", "1 / (K * X**2)"),
            ("logistic step with X in place of X²", "safe_step", "2 * K * X**2", "2 * K * X"),
            ("anytime constant without 1/2", "anytime_constant", "radius / 2", "radius"),
            (
                "exploration not capped at 1",
                "tuned_exploration",
                "min(1.0, math.sqrt(squared / horizon))",
                "math.sqrt(squared / horizon)",
            ),
        ),
    ),
    Errors(
        concept="ball",
        home="scale_into_ball",
        laws=(
            "test_sparse_contexts_equal_dense_ones",
            "test_weights_stay_in_the_ball",
            "test_weights_match_the_plain_recursion",
        ),
        errors=(
            ("cross term of the norm counted once", "add_outer", "2.0 * x", "x"),
            (
                "square of the update left out of the norm",
                "add_outer",
                "squared_norm(coefficients) * squared_norm(values)",
                "0.0",
            ),
            (
                "radius doubled",
                "scale_into_ball",
                "scale.item() * norm <= radius",
                "scale.item() * norm <= 2.0 * radius",
            ),
            ("squared norm multiplied by the scale once", "scale_into_ball", "scale.item()**2", "scale.item()"),
        ),
    ),
    Errors(
        concept="adaptive step",
        home="adaptive_step",
        laws=(
            "test_adaptive_weights_match_the_plain_recursion",
            "test_adaptive_regret_is_within_its_bound",
            "test_sparse_contexts_equal_dense_ones[gaptron]",
        ),
        errors=(
            ("missing square root", "adaptive_step", "math.sqrt(gradient_sums[i])", "gradient_sums[i]"),
            (
                "only the present gradient",
                "adaptive_step",
                "gradient_sums[i] += size * x * x",
                "gradient_sums[i] = size * x * x",
            ),
            ("no projection", "_keep_in_ball", "norm > radius", "norm > math.inf"),
            ("gradient sums without the feature", "adaptive_step", "size * x * x", "size"),
            ("projection onto the unit ball", "_keep_in_ball", "radius / norm", "1.0 / norm"),
            ("ascent", "adaptive_step", "factor", "-factor"),
        ),
    ),
    Errors(
        concept="gaptron",
        home="Gaptron",
        laws=(
            "test_traces::test_micro_trace",
            "test_delayed_micro_trace",
            "test_gaptron::test_weights_match_the_plain_recursion",
            "test_adaptive_weights_match_the_plain_recursion",
            "test_answer_mixes_by_the_larger_of_gap_and_rate",
            "test_anytime_exploration_falls_as_one_over_root_t",
            "test_weights_match_the_plain_recursion",
            "test_units_do_not_matter",
        ),
        errors=(
            ("missing 1/p", "_fold", "1.0 / rounds.propensities[t]", "1.0"),
            (
                "scores recomputed at the present weights",
                "_fold",
                "s[:] = rounds.evidence[t]",
                "_score(parameters, state, indices, values, s)",
            ),
            ("learns from wrong answers", "_fold", "rounds.labels[t] if rounds.correct[t] else -1", "rounds.labels[t]"),
            ("ascent", "_step", "-step", "step"),
            (
                "projection before the step",
                "_step",
                (
                    "change = add_outer(state.direction, coefficients, indices, values)\n"
                    "state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)\n"
                    "if parameters.mode == _FIXED:\n"
                    "    scale_into_ball(parameters.radius, state.direction, state.scale, state.squared_norm)"
                ),
                (
                    "if parameters.mode == _FIXED:\n"
                    "    scale_into_ball(parameters.radius, state.direction, state.scale, state.squared_norm)\n"
                    "change = add_outer(state.direction, coefficients, indices, values)\n"
                    "state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)"
                ),
            ),
            ("no projection", "_step", "parameters.mode == _FIXED", "False"),
            ("step not rescaled", "_step", "parameters.step / state.scale.item()", "parameters.step"),
            ("anytime step without projection", "_multiplier", "multiplier * norm <= parameters.radius", "True"),
            ("t one too large", "_rate", "state.rounds.item()", "state.rounds.item() + 1"),
            (
                "no floor of the theorem's exploration",
                "_schedule",
                "Schedule(c * c, 0.5, learner.least_exploration)",
                "Schedule(c * c, 0.5, 0.0)",
            ),
            ("c/t in place of c²/t", "_schedule", "c * c", "c"),
            (
                "gap and rate added",
                "_decide",
                "max(gap_share(parameters.loss, s[:n], top), rate)",
                "min(1.0, gap_share(parameters.loss, s, top) + rate)",
            ),
            (
                "the gap only",
                "_decide",
                "max(gap_share(parameters.loss, s[:n], top), rate)",
                "gap_share(parameters.loss, s, top)",
            ),
            ("the rate only", "_decide", "max(gap_share(parameters.loss, s[:n], top), rate)", "rate"),
            ("scores without the multiplier", "_score", "_multiplier(parameters, state)", "1.0"),
            ("explores under full information", "_schedule", "Schedule(0.0, 1.0, 0.0)", "Schedule(0.0, 1.0, 0.1)"),
            (
                "full-information step under bandit feedback",
                "_step_of",
                "None if learner.needs_true_label else schedule.least",
                "None",
            ),
            (
                "adaptive step ignores eta_scale",
                "_step_of",
                "learner.eta_scale / learner.problem.norm_bound",
                "1.0 / learner.problem.norm_bound",
            ),
            ("adaptive step for X = 1", "_step_of", "learner.problem.norm_bound", "1.0"),
            ("adaptive step without the importance weight", "_step", "coefficients *= weight", "coefficients *= 1.0"),
        ),
    ),
)
