"""Errors in Fenchel-Young descent and the learners that stand on it: steps, bets, the bound, answers as vertices."""

from tests.mutation.mutation import Place, laws

_LABELS = "tests/learners/algorithms/test_fenchel_young.py"
_ROWS = "tests/learners/algorithms/test_structured.py"
_CONTRACT = "tests/learners/test_contract.py"
_BY_HAND = laws(
    "tests/learners/mathematics/test_descent.py",
    "test_steps_and_bounds_by_hand",
    "test_norm_is_computed_afresh_every_65536_rounds",
    "test_the_whole_wealth_is_bet",
)
_STEPS = (
    *_BY_HAND,
    *laws(_LABELS, "test_micro_trace", "test_steps_are_the_formulas"),
    _ROWS + "::test_steps_are_the_formulas[label-set]",
    _ROWS + "::test_unknown_truths_and_foreign_evidence[label-set]",
    *laws(
        _CONTRACT,
        "test_fold_of_many_is_many_folds_of_one[fenchel-young-label-set-parameter-free-7]",
        "test_fold_counts_rounds[fenchel-young-label-set]",
    ),
    *laws(
        _LABELS,
        "test_parameter_free_does_not_depend_on_the_unit_of_contexts",
        "test_parameter_free_wealth_is_bounded",
    ),
)

STRUCTURED_LEARNERS = [
    Place(
        "learners/algorithms/fenchel_young/fenchel_young.py",
        laws(
            _LABELS,
            "test_micro_trace",
            "test_answer_is_the_closed_form",
            "test_steps_are_the_formulas",
            "test_rounds_without_a_known_label_teach_nothing",
        ),
        {
            "fenchel-young: the step in nats": ("(1.0 - _LN2) * _LN2 / X**2", "(1.0 - _LN2) / X**2"),
            "fenchel-young: a step for X = 1": ("(1.0 - _LN2) * _LN2 / X**2", "(1.0 - _LN2) * _LN2"),
            "fenchel-young: the largest gradient in nats": ("math.sqrt(2.0) * X / _LN2", "math.sqrt(2.0) * X"),
            "fenchel-young: q without its 2": ("min(1.0, 2.0 * rest)", "rest"),
            "fenchel-young: softmax throughout": ("q = min(1.0, 2.0 * rest)", "q = 1.0"),
            "fenchel-young: present scores": (
                "s[:] = rounds.evidence[t]",
                "s[:] = multiplier(steps, state) * (values @ state.direction[indices])",
            ),
            "fenchel-young: learns from labels out of range": ("if 0 <= y < K:", "if y < K:"),
        },
    ),
    Place(
        "learners/mathematics/descent.py",
        _STEPS,
        {
            "descent: uphill": ("coefficients[k] *= -step", "coefficients[k] *= step"),
            "descent: the step not rescaled": ("*= -step / state.scale.item()", "*= -step"),
            "descent: no ball": ("scale_into_ball(steps.radius,", "scale_into_ball(math.inf,"),
            "descent: projection before the step": (
                "    change = add_outer(state.direction, coefficients, indices, values)\n"
                "    state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)\n"
                "    scale_into_ball(steps.radius, state.direction, state.scale, state.squared_norm)\n",
                "    scale_into_ball(steps.radius, state.direction, state.scale, state.squared_norm)\n"
                "    change = add_outer(state.direction, coefficients, indices, values)\n"
                "    state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)\n",
            ),
            "descent: the norm never afresh": ("% _REFRESH == 0", "% _REFRESH == 1"),
            "descent: unknown truths teach": ("if known[t]:", "if True:"),
            "descent: only known rounds count": (
                "coefficients[t], indices, values)\n        count(state)",
                "coefficients[t], indices, values)\n            count(state)",
            ),
            "descent: adaptive without its √2": ("2.0 * ball / math.sqrt(2.0)", "2.0 * ball"),
            "descent: adaptive with the radius for the diameter": (
                "2.0 * ball / math.sqrt(2.0)",
                "ball / math.sqrt(2.0)",
            ),
            "descent: adaptive by the present gradient": (
                "state.gradient_sum[()] += squared_norm(",
                "state.gradient_sum[()] = squared_norm(",
            ),
            "descent: adaptive without the context": (
                "squared_norm(coefficients) * squared_norm(values)",
                "squared_norm(coefficients)",
            ),
            "descent: adaptive without its root": (
                "step /= math.sqrt(state.gradient_sum.item())",
                "step /= state.gradient_sum.item()",
            ),
            "E16: the adaptive step by the sum to T as printed": (
                "    for t in range(len(known)):\n        if known[t]:\n",
                "    for t in range(len(known)):\n"
                "        size = squared_norm(coefficients[t]) * squared_norm(row(contexts, t)[1])\n"
                "        state.gradient_sum[()] += size if known[t] else 0.0\n"
                "    for t in range(len(known)):\n"
                "        if known[t]:\n"
                "            size = squared_norm(coefficients[t]) * squared_norm(row(contexts, t)[1])\n"
                "            state.gradient_sum[()] -= size  # which the step adds\n",
            ),
            "parameter-free: the bet's sign": ("v - _BETTING_STEP", "v + _BETTING_STEP"),
            "parameter-free: wealth won where it is lost": (
                "state.wealth.item() * (1.0 - outcome * v)",
                "state.wealth.item() * (1.0 + outcome * v)",
            ),
            "parameter-free: no wealth won": ("state.wealth.item() * (1.0 - outcome * v)", "state.wealth.item()"),
            "parameter-free: wealth without its bound": (
                "state.wealth[()] = min(_LARGEST_WEALTH, state.wealth.item() * (1.0 - outcome * v))",
                "state.wealth[()] = state.wealth.item() * (1.0 - outcome * v)",
            ),
            "parameter-free: the slope of a linear bet": ("slope = outcome / (1.0 - outcome * v)", "slope = outcome"),
            "parameter-free: curvature of the present slope alone": (
                "state.curvature[()] += slope * slope",
                "state.curvature[()] = 1.0 + slope * slope",
            ),
            "parameter-free: the fraction's step before its curvature": (
                "    state.curvature[()] += slope * slope\n"
                "    state.fraction[()] = min(0.5, max(-0.5, v - _BETTING_STEP * slope / state.curvature.item()))\n",
                "    state.fraction[()] = min(0.5, max(-0.5, v - _BETTING_STEP * slope / state.curvature.item()))\n"
                "    state.curvature[()] += slope * slope\n",
            ),
            "parameter-free: the betting step of ln 2": ("2.0 / (2.0 - math.log(3.0))", "2.0 / (2.0 - math.log(2.0))"),
            "parameter-free: half the fraction is bet": (
                "fraction * min(_LARGEST_WEALTH, state.wealth.item())",
                "0.5 * fraction * min(_LARGEST_WEALTH, state.wealth.item())",
            ),
            "parameter-free: the first wealth alone is bet": (
                "fraction * min(_LARGEST_WEALTH, state.wealth.item())",
                "fraction * min(1.0, state.wealth.item())",
            ),
            "parameter-free: W without 1/X": ("state.scale.item() / steps.norm_bound", "state.scale.item()"),
            "parameter-free: u left unscaled": (
                "state.wealth.item()) * state.scale.item() / steps",
                "state.wealth.item()) / steps",
            ),
            "parameter-free: the bet's u left unscaled": ("product * state.scale.item()", "product"),
            "parameter-free: gradients not brought to 1": (
                "coefficients /= steps.largest_gradient",
                "coefficients /= 1.0",
            ),
            "parameter-free: u's step without √2": (
                "Steps(_PARAMETER_FREE, math.sqrt(2.0),",
                "Steps(_PARAMETER_FREE, 1.0,",
            ),
            "parameter-free: u leaves its ball": (
                "math.sqrt(2.0), 1.0, largest_gradient",
                "math.sqrt(2.0), math.inf, largest_gradient",
            ),
            "parameter-free: u never moves": (
                "_bet(state, coefficients, indices, values)\n    _step(",
                "_bet(state, coefficients, indices, values)\n        return\n    _step(",
            ),
        },
    ),
    Place(
        "learners/algorithms/fenchel_young/structured.py",
        (
            *_BY_HAND,
            *laws(
                _ROWS,
                "test_steps_are_the_formulas",
                "test_unknown_truths_and_foreign_evidence",
                "test_vanishing_propensities_are_the_least",
                "test_propensities_are_the_law_of_the_draws",
            ),
        ),
        {
            "structured: uphill": (
                "means - truths, known)",
                "truths - means, known)",
            ),
            "structured: present means": (
                "np.clip(rounds.evidence,",
                "np.clip(self.means(state, rounds.contexts),",
            ),
            "structured: learns the answer for the truth": (
                "self.vertices(rounds.true_labels)",
                "self.vertices(rounds.labels)",
            ),
            "structured: any evidence is a mean": (
                "np.clip(rounds.evidence, 0.0, self.space.largest_entry)",
                "rounds.evidence",
            ),
            "structured: a step that a over 1/2 lengthens": ("2.0 * min(0.5, a) / b", "2.0 * a / b"),
            "structured: twice the step of Theorem 4.3": (
                '"high-probability": a / b',
                '"high-probability": 2.0 * a / b',
            ),
            "structured: b without its 2": ("return 2.0 * (self.problem.norm_bound", "return (self.problem.norm_bound"),
            "structured: b for X = 1": ("(self.problem.norm_bound * constants.kappa)", "constants.kappa"),
            "structured: Theorem 4.2's bound without 1 - m": ("(4.0 * (1.0 - m) * m)", "(4.0 * m)"),
            "E15: Theorem 4.3's bound without 1 - a/2 as printed": ("/ (1.0 - a / 2.0)", "/ 1.0"),
            "structured: Theorem 4.3's bound without ν's diameter": (
                "constants.gamma * constants.diameter * math.log",
                "constants.gamma * math.log",
            ),
            "structured: E.1's bound with the radius for the diameter": ("(2.0 * self.radius) ** 2", "self.radius**2"),
            "structured: propensities without digits": ("as_propensity(p) for p in exact", "p for p in exact"),
            "structured: one uniform for all": (
                "space.randomize(means[i], uniforms[i])",
                "space.randomize(means[i], uniforms[0])",
            ),
            "structured: the propensity of the answer before": (
                "zip(means, outputs, strict=True)",
                "zip(means, np.roll(outputs, 1, axis=0), strict=True)",
            ),
        },
    ),
    Place(
        "learners/algorithms/fenchel_young/fenchel_young_multilabel.py",
        laws(_ROWS, "test_chances_of_a_set_are_marginals"),
        {
            "label sets: chances are the mean": ("np.asarray(nearest + p * (means - nearest))", "means"),
            "label sets: chances with half of p": ("2.0 * np.linalg.norm", "np.linalg.norm"),
        },
    ),
    Place(
        "learners/algorithms/fenchel_young/fenchel_young_ordinal.py",
        laws(_ROWS, "test_vertices_by_hand", "test_level_distributions_are_the_law"),
        {
            "levels: one step too many": (
                "self.problem.n_labels - 1) < labels",
                "self.problem.n_labels - 1) <= labels",
            ),
            "levels: chances with half of p": ("2.0 * np.linalg.norm", "np.linalg.norm"),
            "levels: the nearest too rarely": ("grades] += 1.0 - p", "grades] += (1.0 - p) ** 2"),
        },
    ),
    Place(
        "learners/algorithms/fenchel_young/fenchel_young_ranking.py",
        laws(_ROWS, "test_answers_are_the_vertices", "test_vertices_by_hand"),
        {
            "rankings: the last first": ("np.argsort(-vertices, axis=1)", "np.argsort(vertices, axis=1)"),
            "rankings: places for points": ("np.asarray(K - places,", "np.asarray(places + 1,"),
            "rankings: labels for places": (".argmax(axis=1), dtype", ".argmax(axis=2), dtype"),
        },
    ),
]
