"""Errors in Newtron, PNewtron and Folklore: estimates, matrices, balls, including errata."""

from tests.mutation.mutation import Errors

NEWTON = (
    Errors(
        concept="gradient estimate",
        home="gradient_estimate",
        laws=("test_newtron::test_micro_trace",),
        errors=(
            (
                "missing 1/p",
                "gradient_estimate",
                "(coefficients[label] - 1.0 if correct else coefficients[label]) / propensity",
                "coefficients[label] - 1.0 if correct else coefficients[label]",
            ),
            (
                "the published ±1/K",
                "gradient_estimate",
                "coefficients[label] += size",
                "coefficients[label] = size / K",
            ),
            ("κ = 1", "gradient_estimate", "propensity if correct else 1.0", "1.0"),
            ("softmax without α", "gradient_estimate", "alpha * s[k]", "s[k]"),
        ),
    ),
    Errors(
        concept="minimizer in the ball",
        home="ball_minimizer",
        laws=("test_newtron::test_micro_trace", "test_minimizer_meets_the_optimality_conditions"),
        errors=(
            ("sign of b", "ball_minimizer", "-linear[i]", "linear[i]"),
            (
                "scaled in place of solved",
                "ball_minimizer",
                "shift += (norm / radius - 1.0) * norm * norm / squared_norm(curvature)",
                "break",
            ),
        ),
    ),
    Errors(
        concept="pnewtron",
        home="PNewtron",
        laws=(
            "test_newtron::test_micro_trace",
            "test_matrix_starts_as_one_over_the_radius",
            "test_running_norm_survives_a_collapse",
            "test_falling_exploration_of_newtron",
            "test_modes_agree_without_delay[pnewtron]",
        ),
        errors=(
            ("ascent", "_newton_step", "a * w - step * G", "a * w + step * G"),
            ("W with the old A", "_newton_step", "(a * w - step * G) / state.diagonal[i, k]", "(a * w - step * G) / a"),
            ("no projection", "_multiplier", "parameters.projected and norm > parameters.radius", "False"),
            (
                "always projected",
                "_multiplier",
                "parameters.projected and norm > parameters.radius",
                "norm > parameters.radius",
            ),
            ("missing cross term of the norm", "_newton_step", "state.weights[i, k] + w", "state.weights[i, k] - w"),
            ("norm not recomputed after a collapse", "_fold", "_COLLAPSE", "0.0"),
            ("A starts as D·I", "init", "1.0 / ball_of(self)", "ball_of(self)"),
            ("b without the curvature", "_fold", "1.0 - kappa * beta * known", "1.0"),
            ("t one too large", "_decide", "state.rounds.item()", "state.rounds.item() + 1"),
            ("recomputed scores before projection", "_fold", "s *= _multiplier(parameters, state)", ""),
        ),
    ),
    Errors(
        concept="newtron",
        home="Newtron",
        laws=(
            "test_newtron::test_micro_trace",
            "test_matrix_starts_as_one_over_the_radius",
            "test_falling_exploration_of_newtron",
            "test_recompute_equals_the_undelayed_learner_in_order_of_arrival",
        ),
        errors=(
            ("b without the curvature", "_fold", "(1.0 - kappa * beta * known) * c", "c"),
            ("A starts as D·I", "init", "1.0 / ball_of(self)", "ball_of(self)"),
            ("t one too large", "_decide", "state.rounds.item()", "state.rounds.item() + 1"),
            (
                "scores recomputed at the fold's first weights",
                "_fold",
                "not parameters.as_of_prediction",
                "not parameters.as_of_prediction and t == len(rounds.labels) - 1",
            ),
        ),
    ),
    Errors(
        concept="folklore",
        home="FolkloreState",
        laws=("test_folklore::test_micro_trace", "test_folklore::test_long_trace"),
        errors=(
            ("E8, G without -2γHW", "_gradient_and_factor", "sigma[k] - 2.0 * constant * r[k]", "sigma[k]"),
            (
                "E9, the surrogate's constant as printed",
                "surrogate_constant",
                "2.0 * comparator_bound * norm_bound + math.log(n_labels) + 2.0",
                "comparator_bound * norm_bound + math.log(n_labels) / 2.0",
            ),
            ("E10, the bound without the 1/4", "regret_bound", "4.0 * constant", "constant"),
            (
                "logits without the bias",
                "predict_eligible",
                "0.25 * P[k, k] - 0.5 * _inner(solution, k * d, x)",
                "-0.5 * _inner(solution, k * d, x)",
            ),
            (
                "sign of h",
                "predict_eligible",
                "0.25 * P[k, k] - 0.5 * _inner(solution, k * d, x)",
                "0.25 * P[k, k] + 0.5 * _inner(solution, k * d, x)",
            ),
            ("λ = X/B", "Folklore.init", "2.0 * self.problem.norm_bound", "self.problem.norm_bound"),
            (
                "A shrinks",
                "learn_at",
                "packed_rank_one(inverse, direction, -constant)",
                "packed_rank_one(inverse, direction, constant)",
            ),
            ("h without the change of A", "learn_at", "_add(solution, -constant * pull, direction)", ""),
            ("ln T in place of ln(1 + T)", "regret_bound", "math.log1p", "math.log"),
        ),
    ),
    Errors(
        concept="fixed point of the softmax",
        home="solve_fixed_point",
        laws=("test_folklore::test_micro_trace",),
        errors=(
            (
                "sign of A",
                "_residual",
                "residual[i] += matrix[i, j] * sigma[j]",
                "residual[i] -= matrix[i, j] * sigma[j]",
            ),
            ("covariance without the mean", "covariance_times", "vector[k] - mean", "vector[k]"),
        ),
    ),
    Errors(
        concept="online-to-batch",
        laws=("test_online_to_batch_returns_the_state_of_its_step",),
        errors=(
            ("one step too far", "online_to_batch", "step - 1", "step"),
            ("the first label in every round", "online_to_batch._run", "true_labels[t]", "true_labels[0]"),
        ),
    ),
    Errors(
        concept="bandit reduction",
        home="ExploredRounds",
        laws=(
            "test_bandit_reduction::test_micro_trace",
            "test_coin_among_eligible_labels",
            "test_anytime_rate_matches_the_formula",
            "test_bandit_learner_ignores_the_true_label[folklore-bandit]",
        ),
        errors=(
            (
                "learns from every correct answer",
                "fold_unchecked",
                "rounds.correct & explored(rounds, self.problem.n_labels)",
                "rounds.correct | explored(rounds, self.problem.n_labels)",
            ),
            (
                "the coin without 1/K",
                "explored",
                "rounds.evidence[:, -1] / counts_of(rounds.eligible, n_labels)",
                "rounds.evidence[:, -1]",
            ),
            (
                "the coin without the propensity",
                "explored",
                "rounds.residual_uniforms * rounds.propensities",
                "rounds.residual_uniforms",
            ),
            ("γ/(K - 1) on every label", "decide_unchecked", "self.problem.n_labels", "self.problem.n_labels - 1"),
            (
                "γ missing from the evidence",
                "decide_unchecked",
                "np.full((contexts.n, 1), rate)",
                "np.zeros((contexts.n, 1))",
            ),
            (
                "rate without K",
                "exploration_rate",
                "self.problem.n_labels * self.base_regret(t)",
                "self.base_regret(t)",
            ),
            ("t one too large", "exploration_rate", "1", "2"),
            (
                "true labels in place of correct answers",
                "_as_full_information",
                "chosen._replace(true_labels=chosen.labels, evidence=evidence)",
                "chosen._replace(true_labels=chosen.true_labels, evidence=evidence)",
            ),
        ),
    ),
    Errors(
        concept="bases of the bandit reduction",
        home="BanditReduction",
        laws=(
            "test_base_learns_from_correct_exploring_rounds_only",
            "test_reduction_over_folklore_equals_folklore_bandit",
            "test_theorem_is_cited_only_where_its_conditions_hold",
            "test_anytime_rate_uses_the_bound_of_the_base",
            "test_bound_of_bases_with_a_mistake_bound_holds",
        ),
        errors=(
            ("overlapping arrays", "base_state", "start = stop", "start = 0"),
            (
                "a copy of the arrays",
                "base_state",
                "state.numbers[start:stop].reshape(shape)",
                "state.numbers[start:stop].reshape(shape).copy()",
            ),
            ("rounds in place of updates", "base_state", "state.updates", "state.rounds"),
        ),
    ),
    Errors(
        concept="proofs of the bases",
        home="GradientBase",
        laws=(
            "test_theorem_is_cited_only_where_its_conditions_hold",
            "test_bound_of_bases_with_a_mistake_bound_holds",
            "test_contradictions_and_losses_of_precision_are_refused",
            "test_regret_bound_of_bases_with_a_step_is_half_the_squared_norm_over_the_step",
        ),
        errors=(
            ("any step proved", "GradientBase.proof", "return None", "pass"),
            ("regret without the 2", "GradientBase.regret_bound", "2.0 * self._step(settings)", "self._step(settings)"),
            ("step for FOLKLORE", "FolkloreBase.build", 'settings.learning_rate != "theorem"', "False"),
        ),
    ),
)
