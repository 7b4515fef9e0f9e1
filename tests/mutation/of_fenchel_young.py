"""Errors in Fenchel-Young descent and the learners built on it: steps, bets, bounds, answers as vertices."""

from tests.mutation.mutation import Errors

_STEPS = (
    "test_steps_and_bounds_match_hand_computation",
    "test_descent::test_norm_is_recomputed_every_65536_rounds",
    "test_bet_is_a_fraction_of_the_whole_wealth",
    "test_fenchel_young::test_micro_trace",
    "test_fenchel_young::test_steps_match_the_formulas",
    "test_structured::test_steps_match_the_formulas[label-set]",
    "test_unknown_truths_and_large_evidence_are_harmless[label-set]",
    "test_fold_does_not_depend_on_the_batch_size[fenchel-young-multilabel-parameter-free-7]",
    "test_units_do_not_matter",
    "test_parameter_free_wealth_is_bounded",
)

FENCHEL_YOUNG = (
    Errors(
        concept="fenchel-young",
        home="FenchelYoung",
        laws=(
            "test_fenchel_young::test_micro_trace",
            "test_distribution_matches_the_closed_form",
            "test_fenchel_young::test_steps_match_the_formulas",
            "test_unknown_truths_and_large_evidence_are_harmless",
        ),
        errors=(
            ("the step in nats", "theorem_step", "(1.0 - _LN2) * _LN2", "1.0 - _LN2"),
            ("a step for X = 1", "theorem_step", "(1.0 - _LN2) * _LN2 / X**2", "(1.0 - _LN2) * _LN2"),
            ("the largest gradient in nats", "_steps", "math.sqrt(2.0) * X / _LN2", "math.sqrt(2.0) * X"),
            ("q without the factor 2", "decode", "min(1.0, 2.0 * rest)", "rest"),
            ("softmax for every label", "decode", "min(1.0, 2.0 * rest)", "1.0"),
            (
                "scores recomputed at the present weights",
                "_fold",
                "rounds.evidence[t]",
                "multiplier(steps, state) * (values @ state.direction[indices])",
            ),
        ),
    ),
    Errors(
        concept="descent",
        home="descend",
        laws=_STEPS,
        errors=(
            (
                "E16, the adaptive step by the sum to T as printed",
                "descend_all",
                "indices, values = row(contexts, t)\ndescend(steps, state, coefficients[t], indices, values)",
                (
                    "indices, values = row(contexts, t)\n"
                    "later = [u for u in range(t + 1, len(known)) if known[u]]\n"
                    "total = sum([squared_norm(coefficients[u]) * squared_norm(row(contexts, u)[1]) for u in later])\n"
                    "state.gradient_sum[()] += total\n"
                    "descend(steps, state, coefficients[t], indices, values)\n"
                    "state.gradient_sum[()] -= total"
                ),
            ),
            ("ascent", "_step", "-step", "step"),
            ("step not rescaled", "_step", "-step / state.scale.item()", "-step"),
            ("no projection", "_step", "steps.radius", "math.inf"),
            (
                "projection before the step",
                "_step",
                (
                    "change = add_outer(state.direction, coefficients, indices, values)\n"
                    "state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)\n"
                    "scale_into_ball(steps.radius, state.direction, state.scale, state.squared_norm)"
                ),
                (
                    "scale_into_ball(steps.radius, state.direction, state.scale, state.squared_norm)\n"
                    "change = add_outer(state.direction, coefficients, indices, values)\n"
                    "state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)"
                ),
            ),
            ("norm never recomputed", "count", "state.rounds.item() % _REFRESH == 0", "False"),
            ("rounds without a true label update", "descend_all", "known[t]", "True"),
            ("adaptive step without √2", "steps", "2.0 * ball / math.sqrt(2.0)", "2.0 * ball"),
            ("adaptive step with radius in place of diameter", "steps", "2.0 * ball", "ball"),
            (
                "adaptive step from the present gradient only",
                "_step",
                "state.gradient_sum[()] += squared_norm(coefficients) * squared_norm(values)",
                "state.gradient_sum[()] = squared_norm(coefficients) * squared_norm(values)",
            ),
            ("adaptive step without the context", "_step", "squared_norm(values)", "1.0"),
            (
                "adaptive step without the square root",
                "_step",
                "math.sqrt(state.gradient_sum.item())",
                "state.gradient_sum.item()",
            ),
        ),
    ),
    Errors(
        concept="parameter-free descent",
        home="descend",
        laws=_STEPS,
        errors=(
            ("sign of the bet", "_bet", "_BETTING_STEP", "-_BETTING_STEP"),
            (
                "sign of the wealth update",
                "_bet",
                "state.wealth.item() * (1.0 - outcome * v)",
                "state.wealth.item() * (1.0 + outcome * v)",
            ),
            (
                "wealth not capped",
                "_bet",
                "min(_LARGEST_WEALTH, state.wealth.item() * (1.0 - outcome * v))",
                "state.wealth.item() * (1.0 - outcome * v)",
            ),
            ("slope of a linear bet", "_bet", "outcome / (1.0 - outcome * v)", "outcome"),
            (
                "curvature from the present slope only",
                "_bet",
                "state.curvature[()] += slope * slope",
                "state.curvature[()] = 1.0 + slope * slope",
            ),
            (
                "fraction updated before curvature",
                "_bet",
                (
                    "state.curvature[()] += slope * slope\n"
                    "state.fraction[()] = min(0.5, max(-0.5, v - _BETTING_STEP * slope / state.curvature.item()))"
                ),
                (
                    "state.fraction[()] = min(0.5, max(-0.5, v - _BETTING_STEP * slope / state.curvature.item()))\n"
                    "state.curvature[()] += slope * slope"
                ),
            ),
            ("betting step with ln 2", "_BETTING_STEP", "math.log(3.0)", "math.log(2.0)"),
            ("W without 1/X", "multiplier", "steps.norm_bound", "1.0"),
            (
                "u not scaled",
                "multiplier",
                "fraction * min(_LARGEST_WEALTH, state.wealth.item()) * state.scale.item()",
                "fraction * min(_LARGEST_WEALTH, state.wealth.item())",
            ),
            ("u not scaled in the bet", "_bet", "product * state.scale.item()", "product"),
            ("gradients not normalized", "descend", "steps.largest_gradient", "1.0"),
            (
                "step of u without √2",
                "steps",
                "Steps(_PARAMETER_FREE, math.sqrt(2.0), 1.0, largest_gradient, norm_bound)",
                "Steps(_PARAMETER_FREE, 1.0, 1.0, largest_gradient, norm_bound)",
            ),
            (
                "u not projected",
                "steps",
                "Steps(_PARAMETER_FREE, math.sqrt(2.0), 1.0, largest_gradient, norm_bound)",
                "Steps(_PARAMETER_FREE, math.sqrt(2.0), math.inf, largest_gradient, norm_bound)",
            ),
        ),
    ),
    Errors(
        concept="structured",
        home="Structured",
        laws=(
            "test_steps_and_bounds_match_hand_computation",
            "test_descent::test_norm_is_recomputed_every_65536_rounds",
            "test_bet_is_a_fraction_of_the_whole_wealth",
            "test_structured::test_steps_match_the_formulas",
            "test_unknown_truths_and_large_evidence_are_harmless",
            "test_underflowing_propensities_become_the_least",
            "test_propensities_match_the_draws",
        ),
        errors=(
            ("E15, Theorem 4.3's bound without 1 - a/2 as printed", "regret_bound", "1.0 - a / 2.0", "1.0"),
            ("ascent", "Drawing.fold_unchecked", "means - truths", "truths - means"),
            (
                "means recomputed at the present weights",
                "Drawing.fold_unchecked",
                "rounds.evidence",
                "self.means(state, rounds.contexts)",
            ),
            (
                "learns the answer in place of the truth",
                "Drawing.fold_unchecked",
                "self.vertices(rounds.true_labels)",
                "self.vertices(rounds.labels)",
            ),
            (
                "evidence not clipped",
                "Drawing.fold_unchecked",
                "np.clip(rounds.evidence, 0.0, self.space.largest_entry)",
                "rounds.evidence",
            ),
            ("a not capped at 1/2 in the step", "step_sizes", "min(0.5, a)", "a"),
            ("twice the step of Theorem 4.3", "step_sizes", "a / b", "2.0 * a / b"),
            ("b without the factor 2", "smoothness", "2.0", "1.0"),
            ("b for X = 1", "smoothness", "self.problem.norm_bound * constants.kappa", "constants.kappa"),
            ("Theorem 4.2's bound without 1 - m", "regret_bound", "4.0 * (1.0 - m)", "4.0"),
            (
                "Theorem 4.3's bound without the diameter",
                "regret_bound",
                "constants.gamma * constants.diameter",
                "constants.gamma",
            ),
            ("E.1's bound with radius in place of diameter", "regret_bound", "2.0 * self.radius", "self.radius"),
            ("one uniform for all answers", "Drawing.draw_unchecked", "uniforms[i]", "uniforms[0]"),
            (
                "the previous answer's propensity",
                "Drawing.draw_unchecked",
                "zip(means, outputs, strict=True)",
                "zip(means, np.roll(outputs, 1, axis=0), strict=True)",
            ),
        ),
    ),
    Errors(
        concept="averaged weights",
        laws=("test_average_weights_is_the_mean_over_the_rounds", "test_theorem_4_6_bound_holds_on_fresh_data"),
        errors=(
            ("the sum in place of the mean", "average_weights", "total / T", "total"),
            ("the first truth in every round", "average_weights", "true_labels[t : t + 1]", "true_labels[:1]"),
        ),
    ),
    Errors(
        concept="multilabel",
        home="FenchelYoungMultilabel",
        laws=("test_label_probabilities_are_marginals",),
        errors=(
            ("the mean as probabilities", "probabilities", "np.asarray(nearest + p * (means - nearest))", "means"),
            ("probabilities with half of p", "probabilities", "2.0", "1.0"),
        ),
    ),
    Errors(
        concept="ordinal",
        home="FenchelYoungOrdinal",
        laws=(
            "test_vertices_match_hand_computation",
            "test_restricted_mean_is_the_best_of_the_hull",
            "test_structured::test_steps_match_the_formulas",
            "test_unknown_truths_and_large_evidence_are_harmless",
            "test_underflowing_propensities_become_the_least",
        ),
        errors=(
            (
                "one step too many",
                "vertices",
                "np.arange(self.problem.n_labels - 1) < labels[:, None]",
                "np.arange(self.problem.n_labels - 1) <= labels[:, None]",
            ),
            ("probabilities with half of p", "_decode", "2.0", "1.0"),
            ("the nearest vertex too rarely", "_decode", "1.0 - p", "(1.0 - p)**2"),
            ("one step too few", "_fold", "room.mean[:level] -= 1.0", "room.mean[:max(level - 1, 0)] -= 1.0"),
            ("evidence not clipped", "_fold", "clip(room.mean)", "pass"),
            ("learns the answer in place of the truth", "_fold", "rounds.true_labels[t]", "rounds.labels[t]"),
        ),
    ),
    Errors(
        concept="rankings",
        home="FenchelYoungRanking",
        laws=("test_answers_correspond_to_vertices", "test_vertices_match_hand_computation"),
        errors=(
            ("reversed ranking", "rows", "-vertices", "vertices"),
            ("places in place of points", "vertices", "K - places", "places + 1"),
            (
                "labels in place of places",
                "rows",
                "vertices.reshape(-1, K, K).argmax(axis=1)",
                "vertices.reshape(-1, K, K).argmax(axis=2)",
            ),
        ),
    ),
)
