"""Errors in what the learners share: drawing, exploring, losses, steps, linear algebra."""

from tests.mutation.mutation import Place, laws

_LEARNERS = "tests/learners/"
_CONTRACT = _LEARNERS + "test_contract.py"
_EXPLORATION = laws(
    _LEARNERS + "test_exploration.py",
    "test_draw_at_the_edges",
    "test_draw_is_the_inverse_of_the_cumulated_distribution",
    "test_leftovers_are_uniform_for_every_label",
    "test_propensities_are_in_range_whatever_is_drawn_from",
    "test_settled_distributions_are_in_range",
    "test_leaders_are_the_first_of_the_largest",
    "test_mixing_gives_each_label_its_share",
    "test_softmax_is_stable",
)
_LOSSES = laws(
    _LEARNERS + "test_gaptron.py",
    "test_loss_is_the_formula",
    "test_coefficients_are_the_derivative",
    "test_gap_map_is_the_formula",
    "test_full_information_bound",
)
_SCHEDULES = laws(
    _LEARNERS + "test_gaptron.py", "test_safe_steps_are_the_theorems", "test_explorations_are_the_theorems"
)
_ADAPTIVE = (
    *laws(
        _LEARNERS + "test_gaptron.py",
        "test_adaptive_weights_follow_the_written_out_recursion",
        "test_adaptive_regret_is_within_its_bound",
    ),
    _CONTRACT + "::test_sparse_contexts_are_the_dense_ones[gaptron]",
)
_ALGEBRA = (
    *laws(
        _LEARNERS + "test_linear_algebra.py",
        "test_scores_are_the_matrix_product",
        "test_add_outer_adds_and_tells_the_change_of_the_norm",
        "test_adding_to_a_label_leaves_the_others",
        "test_packed_identity_and_rank_one",
        "test_packed_products_with_two_blocks",
        "test_packed_solves",
    ),
    *laws(_LEARNERS + "test_gaptron.py", "test_ball_is_reached_and_left", "test_weights_stay_in_the_ball"),
)

MATHEMATICS = [
    Place(
        "learners/mathematics/exploration.py",
        _EXPLORATION,
        {
            "draw: the cumulated probability before the label": ("if cumulated + probability >", "if cumulated >"),
            "draw: the label below its own edge": (
                "cumulated + probability > uniform",
                "cumulated + probability >= uniform",
            ),
            "draw: the first label left out of the sum": (
                "cumulated += probability",
                "cumulated += probability * (k > 0)",
            ),
            "draw: a label without probability at the end": ("if probability > 0.0:", "if probability >= 0.0:"),
            "draw: the propensity of the leader": ("distributions[i, labels[i]]", "distributions[i].max()"),
            "draw: the propensity of the label before": (
                "distributions[i, labels[i]]",
                "distributions[i, labels[i] - 1]",
            ),
            "draw: a propensity over 1": ("return min(1.0, max(LEAST_PROPENSITY, probability))", "return probability"),
            "settled: what is over 1 stays": ("min(1.0, p) if p >= LEAST_PROPENSITY", "p if p >= LEAST_PROPENSITY"),
            "draw: the uniform number itself as leftover": ("(uniforms[i] - before) / propensities[i]", "uniforms[i]"),
            "tie: the last leader": ("if scores[k] > scores[best]:", "if scores[k] >= scores[best]:"),
            "tie: the last rival": ("k != excluded and scores[k] >", "k != excluded and scores[k] >="),
            "γ/(K - 1) on all but the leader": (
                "distribution[:] = share / len(distribution)",
                "distribution[:] = share / (len(distribution) - 1)\n    distribution[top] = 0.0",
            ),
            "softmax without its shift": ("np.exp(scores[k] - top)", "np.exp(scores[k])"),
        },
    ),
    Place(
        "learners/mathematics/exploration.py",
        (
            *laws(_LEARNERS + "test_soba.py", "test_adaptive_rate_is_theorem_5", "test_state_is_algorithm_1"),
            _LEARNERS + "test_traces.py::test_micro_trace",
        ),
        {
            "ȳ including y": ("if k != excluded and", "if"),
            "adaptive rate: t one too large": ("/ (rounds + 1)", "/ (rounds + 2)"),
            "adaptive rate without the 1": ("(1.0 + quadratic_sum)", "quadratic_sum"),
            "adaptive rate without K": ("n_labels * (1.0 +", "(1.0 +"),
        },
    ),
    Place(
        "learners/mathematics/exploration.py",
        (
            *laws(_LEARNERS + "test_banditron.py", "test_micro_trace", "test_falling_exploration"),
            _LEARNERS + "test_ridge.py::test_falling_exploration",
        ),
        {
            "scheduled rate: t one too large": ("(rounds + 1.0)", "(rounds + 2.0)"),
            "scheduled rate without its floor": ("max(schedule.least, falling)", "falling"),
            "scheduled rate not cut at 1": ("min(1.0, max(schedule", "(1.0 * max(schedule"),
            "scheduled rate: always a root": ("** schedule.power", "** 0.5"),
        },
    ),
    Place(
        "learners/mathematics/exploration.py",
        (_LEARNERS + "test_newtron.py::test_micro_trace",),
        {
            "softened: γ/(K - 1) on every label": (
                "* distribution[k] + share / K",
                "* distribution[k] + share / (K - 1)",
            )
        },
    ),
    Place(
        "learners/mathematics/exploration.py",
        laws(
            _LEARNERS + "test_squarecb.py",
            "test_the_exploration_is_the_formula",
            "test_regret_is_paid_for_by_the_error_of_the_regression",
        ),
        {
            "by gap: the leader without the rest": ("* (1.0 - others) + share / K", "/ K + share / K"),
            "by gap: 1 for K": ("1.0 / (K + gap_weight", "1.0 / (1.0 + gap_weight"),
            "by gap: the uniform share on top": ("(1.0 - share) * probability", "probability"),
            "by gap: no uniform share behind the leader": (
                "(1.0 - share) * probability + share / K",
                "(1.0 - share) * probability",
            ),
            "by gap: the gap without its weight": ("gap_weight * (values[top]", "1.0 * (values[top]"),
            "by gap: gaps to 1": ("(values[top] - values[k])", "(1.0 - values[k])"),
        },
    ),
    Place(
        "learners/mathematics/adagrad.py",
        _ADAPTIVE,
        {
            "adaptive step: the root forgotten": ("x / math.sqrt(gradient_sums[i])", "x / gradient_sums[i]"),
            "adaptive step: the present gradient alone": ("gradient_sums[i] += size", "gradient_sums[i] = size"),
            "adaptive step: the gradients before alone": (
                "        gradient_sums[i] += size * x * x\n"
                "        if gradient_sums[i] <= 0.0:\n"
                "            continue\n"
                "        w, factor = weights[i], step * x / math.sqrt(gradient_sums[i])\n",
                "        before = gradient_sums[i]\n"
                "        gradient_sums[i] += size * x * x\n"
                "        if gradient_sums[i] <= 0.0:\n"
                "            continue\n"
                "        w, factor = weights[i], step * x / math.sqrt(max(before, size * x * x))\n",
            ),
            "adaptive step: no ball": ("if norm > radius:", "if norm > math.inf:"),
            "adaptive step: sums without the feature": ("+= size * x * x", "+= size"),
            "adaptive step: the largest coefficient for the block": (
                "size = squared_norm(coefficients)",
                "size = coefficients.max() ** 2",
            ),
            "adaptive step: onto a ball of radius 1": ("w[k] *= radius / norm", "w[k] *= 1.0 / norm"),
            "adaptive step: the position for the index": (
                "i, x = indices[position], values[position]",
                "i, x = position, values[position]",
            ),
            "adaptive step: uphill": ("w[k] -= factor", "w[k] += factor"),
        },
    ),
    Place(
        "learners/mathematics/losses.py",
        _LOSSES,
        {
            "logistic gradient in nats": ("coefficients[k] /= math.log(2.0)", "coefficients[k] /= 1.0"),
            "logistic loss in nats": ("-math.log2(", "-math.log("),
            "β = 0": ("(1.0 - _TIE_SLACK) / n_labels", "0.0"),
            "hinge without its zero branch": ("if _clear(margin, n_labels):", "if margin >= 1.0:"),
            "hinge gap of E5": (
                "0.0 if _clear(margin, len(scores)) else 1.0 - margin",
                "1.0 - max(float(_clear(margin, len(scores))), margin)",
            ),
            "surrogate: the gradient's sign": ("coefficients[y] = -slope", "coefficients[y] = slope"),
            "smooth hinge slope of 1": ("1.0 - 2.0 * margin, 2.0", "1.0 - 2.0 * margin, 1.0"),
            "smooth hinge gap not squared": ("shortfall * shortfall", "shortfall"),
            "logistic gap on the wrong side of 1/2": ("top_probability < 0.5", "top_probability < 0.4"),
            "gap with the leader as its own rival": ("leader_except(scores, top)", "top"),
        },
    ),
    Place(
        "learners/mathematics/gaptron_schedules.py",
        _SCHEDULES,
        {
            "E1: smooth hinge step as printed": ("1 / (4 * K * X**2)", "1 / (2 * K * X**2)"),
            "E2: smooth hinge exploration as printed": ("2 * K**2 * X**2 * D**2,", "4 * K**2 * X**2 * D**2,"),
            "E2: smooth hinge step under bandit feedback as printed": (
                "return full if gamma is None else full * gamma / K",
                "twice = 2 if gamma is not None and loss == 'smooth_hinge' else 1\n"
                "    return full if gamma is None else twice * full * gamma / K",
            ),
            "E3: logistic step under bandit feedback as printed": (
                "return full if gamma is None else full * gamma / K",
                "if gamma is not None and loss == 'logistic':  # with D = 1\n"
                "        return full * ((1 - gamma) * math.exp(-2 * X) / K + gamma) / K\n"
                "    return full if gamma is None else full * gamma / K",
            ),
            "E4: logistic exploration as printed": ("K**2 * X**2 * D**2 / _LN2", "2 * K**2 * X**2"),
            "bandit step with K for K²": ("full * gamma / K", "full * gamma"),
            "logistic step without ln 2": ("_LN2 / (2 * K * X**2)", "1 / (2 * K * X**2)"),
            "hinge step without 1 - β": ("(K - 1) / (K**2 * X**2)", "1 / (K * X**2)"),
            "steps for X in place of X²: logistic": ("_LN2 / (2 * K * X**2)", "_LN2 / (2 * K * X)"),
            "anytime constant without 1/2": ("radius / 2 *", "radius *"),
            "exploration not cut at 1": ("min(1.0, math.sqrt(squared / horizon))", "math.sqrt(squared / horizon)"),
        },
    ),
    Place(
        "learners/mathematics/linear_algebra.py",
        _ALGEBRA,
        {
            "norm: the cross term once": ("change += 2.0 * x *", "change += x *"),
            "norm: the new square left out": ("squared_norm(coefficients) * squared_norm(values)", "0.0"),
            "ball: never entered": ("scale.item() * norm <= radius", "scale.item() * norm <= 2.0 * radius"),
            "ball: a scale that underflows is dropped": ("direction[:] *= scale.item()", "direction[:] *= 1.0"),
            "ball: the norm squared by the scale once": (
                "norm_squared[()] *= scale.item() ** 2",
                "norm_squared[()] *= scale.item()",
            ),
            "sparse: the position for the index": (
                "weights[indices[position], label] += factor",
                "weights[position, label] += factor",
            ),
            "blocks: the off-diagonal once": ("total -= 2.0 * dense[i]", "total -= dense[i]"),
            "blocks: both with one sign": ("total -= sign * _dot", "total += sign * _dot"),
            "rank one: the diagonal left out": (
                "for j in range(i + 1):\n            packed_row[j] += scaled",
                "for j in range(i):\n            packed_row[j] += scaled",
            ),
        },
    ),
    Place(
        "learners/mathematics/linear_algebra.py",
        (
            _LEARNERS + "test_soba_low_rank.py::test_is_soba_while_there_is_room",
            _CONTRACT + "::test_sparse_contexts_are_the_dense_ones[soba]",
        ),
        {
            "sparse: a context left behind": (
                "indices, values = row(contexts, i)\n    dense[:] = 0.0\n",
                "indices, values = row(contexts, i)\n",
            )
        },
    ),
    Place(
        "learners/base.py",
        (_CONTRACT + "::test_problems_without_meaning_are_refused",),
        {
            "E22: a single label": (
                "n_labels: Annotated[int, pydantic.Field(ge=2)]",
                "n_labels: Annotated[int, pydantic.Field(ge=1)]",
            )
        },
    ),
    Place(
        "learners/mathematics/ball.py",
        laws(_LEARNERS + "test_newtron.py", "test_micro_trace", "test_minimizer_in_the_ball"),
        {
            "minimizer: the sign of b": ("result[i] = -linear[i]", "result[i] = linear[i]"),
            "minimizer: scaled, not solved": (
                "shift += (norm / radius - 1.0)",
                "break\n        shift += (norm / radius - 1.0)",
            ),
        },
    ),
    Place(
        "learners/mathematics/regularized_softmax.py",
        ("tests/learners/algorithms/test_folklore.py",),
        {
            "fixed point: the sign of A": ("residual[i] += matrix[i, j]", "residual[i] -= matrix[i, j]"),
            "covariance without its mean": ("probabilities[k] * (vector[k] - mean)", "probabilities[k] * vector[k]"),
        },
    ),
    Place(
        "learners/mathematics/norms.py",
        ("tests/learners/mathematics/test_norms.py",),
        {
            "norm policy: everything scaled": ("largest * norms > bound", "largest * norms > 0.0"),
            "norm policy: the bound forgotten": ("np.repeat(bound / ", "np.repeat(1.0 / "),
        },
    ),
]
