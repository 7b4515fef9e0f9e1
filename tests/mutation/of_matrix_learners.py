"""Errors in the learners whose state is a matrix beside weights: errata put back, wrong inverses, sums, signs."""

from tests.mutation.mutation import Place, laws

_LEARNERS = "tests/learners/"
_TRACES = _LEARNERS + "test_traces.py"
_CONTRACT = _LEARNERS + "test_contract.py"

MATRIX_LEARNERS = [
    Place(
        "learners/algorithms/second_order/soba.py",
        (
            _TRACES + "::test_micro_trace",
            *laws(
                _LEARNERS + "test_soba.py",
                "test_state_is_algorithm_1",
                "test_first_correct_round_is_accepted",
                "test_adaptive_rate_is_theorem_5",
            ),
            *laws(_CONTRACT, "test_sparse_contexts_are_the_dense_ones[soba]", "test_fold_counts_rounds[soba]"),
        ),
        {
            "soba: missing 1/p": ("1.0 / rounds.propensities[t]", "1.0"),
            "soba: ȳ including y": ("leader_except(s, y)", "leader_except(s, -1)"),
            "soba: q with A_t": ("m = margin_gain(c, delta, q)", "m = margin_gain(c, delta, q / (1.0 + q))"),
            "soba: accepts > for >=": ("margin_sum.item() + m < 0.0", "margin_sum.item() + m <= 0.0"),
            "soba: accepts everything": ("state.margin_sum.item() + m < 0.0", "False"),
            "soba: rejects on m alone": ("state.margin_sum.item() + m < 0.0", "m < 0.0"),
            "E17: soba's sign": ("weights[i, k] -= factor", "weights[i, k] += factor"),
            "soba: delta's sign": ("s[rival] - s[y]", "s[y] - s[rival]"),
            "E19: rejected rounds in Q": (
                "    if state.margin_sum.item() + m < 0.0:\n        return\n",
                "    if state.margin_sum.item() + m < 0.0:\n        state.quadratic_sum[()] += q\n        return\n",
            ),
            "soba: W without 1 + δ": ("c * (1.0 + delta) / (1.0 + q)", "c / (1.0 + q)"),
            "soba: W with A_(t-1)": ("c * (1.0 + delta) / (1.0 + q)", "c * (1.0 + delta)"),
            "soba: A grows by its old inverse": ("-c / (1.0 + q))", "-c)"),
            "soba: m without 1 + q": ("2.0 * weight * delta) / (1.0 + q)", "2.0 * weight * delta)"),
            "soba: m with one δ": ("2.0 * weight * delta)", "weight * delta)"),
            "soba: Q with A_(t-1)": ("state.quadratic_sum[()] += q / (1.0 + q)", "state.quadratic_sum[()] += q"),
            "soba: A starts as I/a": ("1.0 / self.regularization", "self.regularization"),
            "soba: learns from wrong answers": ("if rounds.correct[t]:", "if True:"),
            "soba: counts correct rounds alone": (
                "c, room)\n        state.rounds",
                "c, room)\n            state.rounds",
            ),
        },
    ),
    Place(
        "learners/algorithms/second_order/soba.py",
        laws(
            _LEARNERS + "test_inverse.py",
            "test_the_matrix_is_the_sum_of_the_updates",
            "test_a_first_round_changes_what_it_should",
            "test_an_indefinite_inverse_is_mended_early",
            "test_an_older_state_opens_and_folds_on",
            "test_new_models_are_bounded",
        ),
        {
            "soba: A without 1/p": ("indices, values, low, high, c)", "indices, values, low, high, 1.0)"),
            "soba: θ's sign": ("state.theta, rival, -c,", "state.theta, rival, c,"),
            "soba: an indefinite inverse stays": ("_keep_up(state, a, True)", "_keep_up(state, a, False)"),
            "soba: an older state without θ": ("product(matrix, w).reshape(K, d)", "np.zeros((K, d))"),
            "soba: new models bounded without K": ("gamma / self.problem.n_labels", "gamma"),
        },
    ),
    Place(
        "learners/mathematics/inverse.py",
        laws(
            _LEARNERS + "test_inverse.py",
            "test_a_damaged_inverse_is_computed_anew",
            "test_rebuild_is_the_inverse",
            "test_sums_by_blocks_are_outer_products",
        ),
        {
            "inverse: never found to have drifted": ("_TOLERANCE = 1e-8", "_TOLERANCE = 1e8"),
            "inverse: w not solved anew": ("packed_solve_upper(factor, w)", "w[:] = w"),
            "inverse: half of the square": ("into[j] += own * row[j]", "into[j] += 0.5 * own * row[j]"),
            "inverse: the blocks across added": ("packed[across + j] -= product", "packed[across + j] += product"),
            "inverse: all pairs twice": (
                "                packed[start + j] += own * x[j]",
                "                packed[start + j] += 2.0 * own * x[j]",
            ),
        },
    ),
    Place(
        "learners/algorithms/second_order/soba_diagonal.py",
        (
            _TRACES + "::test_micro_trace",
            *laws(
                _LEARNERS + "test_soba.py",
                "test_diagonal_state_is_the_written_out_recursion",
                "test_diagonal_is_soba_on_one_feature_and_two_labels_of_one_direction",
                "test_diagonal_refuses_where_the_margin_sum_would_turn_negative",
            ),
        ),
        {
            "soba-diagonal: missing 1/p": ("1.0 / rounds.propensities[t]", "1.0"),
            "soba-diagonal: accepts > for >=": ("margin_sum.item() + m < 0.0", "margin_sum.item() + m <= 0.0"),
            "soba-diagonal: accepts everything": ("state.margin_sum.item() + m < 0.0", "False"),
            "soba-diagonal: sign of the rival": ("values, rival, c, -c)", "values, rival, c, c)"),
            "soba-diagonal: A by x": ("old + c * x * x", "old + c * abs(x)"),
            "soba-diagonal: W with the old A": (
                "(old * state.weights[i, k] + sign * x) / new",
                "(old * state.weights[i, k] + sign * x) / old",
            ),
            "soba-diagonal: θ not recovered": ("(old * state.weights[i, k]", "(new * state.weights[i, k]"),
            "soba-diagonal: Q with A_(t-1)": (
                "state.quadratic_sum[()] += c * _quadratic(state.diagonal, indices, values, y, rival)",
                "state.quadratic_sum[()] += q",
            ),
            "E19: soba-diagonal's rejected rounds in Q": (
                "    if state.margin_sum.item() + m < 0.0:\n        return\n",
                "    if state.margin_sum.item() + m < 0.0:\n        state.quadratic_sum[()] += q\n        return\n",
            ),
            "soba-diagonal: q of one row": ("(1.0 / a[rival] + 1.0 / a[y])", "(1.0 / a[y])"),
        },
    ),
    Place(
        "learners/algorithms/second_order/soba_low_rank.py",
        (
            _TRACES + "::test_micro_trace",
            *laws(
                _LEARNERS + "test_soba_low_rank.py",
                "test_factor_is_that_of_the_stored_rows",
                "test_a_short_context_finds_room_where_a_long_one_does_not",
                "test_the_margin_test_is_exact",
                "test_full_matrix_goes_on_with_implicit_steps",
                "test_state_from_outside_with_an_empty_factor_teaches_nothing",
                "test_a_sparse_context_leaves_nothing_behind",
                "test_is_soba_while_there_is_room",
            ),
        ),
        {
            "low-rank: missing 1/p": ("1.0 / rounds.propensities[t]", "1.0"),
            "low-rank: ȳ including y": ("leader_except(s, y)", "leader_except(s, -1)"),
            "low-rank: accepts > for >=": ("margin_sum.item() + m < 0.0", "margin_sum.item() + m <= 0.0"),
            "low-rank: accepts everything": ("state.margin_sum.item() + m < 0.0", "False"),
            "low-rank: refuses by the m of q = 0": ("margin_gain(c, delta, most)", "margin_gain(c, delta, 0.0)"),
            "low-rank: q without the stored rows": ("q = max(0.0, most - known)", "q = most"),
            "low-rank: z'z of one label": ("most = s[rival] - s[y], 2.0 * c", "most = s[rival] - s[y], c"),
            "low-rank: the factor's new row left empty": (
                "state.factor[start : start + place] = r",
                "state.factor[start : start + place] = 0.0",
            ),
            "low-rank: the factor's diagonal without a": ("math.sqrt(a * (1.0 + q))", "math.sqrt(1.0 + q)"),
            "low-rank: the factor's diagonal without 1 + q": ("math.sqrt(a * (1.0 + q))", "math.sqrt(a)"),
            "low-rank: the factor's row one too early": (
                "start = place * (place + 1) // 2",
                "start = place * (place - 1) // 2",
            ),
            "low-rank: room for one row less": ("place == len(state.ends) or", "place == len(state.ends) - 1 or"),
            "low-rank: room for one non-zero less": ("> len(state.values) - at", ">= len(state.values) - at"),
            "low-rank: zeros take room": ("np.count_nonzero(z.values)", "len(z.values)"),
            "low-rank: zeros are stored": ("if z.values[position] != 0.0:", "if True:"),
            "low-rank: rows of one label pair alone": (
                " - int(other.rival == z.y) - int(other.y == z.rival)",
                "",
            ),
            "low-rank: rows that share no label": ("if shared != 0 else 0.0", "if shared > 0 else 0.0"),
            "low-rank: a context left behind": ("x[z.indices[position]] = 0.0", "x[z.indices[position]] *= 0.5"),
            "low-rank: rows without √c": ("math.sqrt(c) * values, rival", "values, rival"),
            "low-rank: W without 1 + δ": ("math.sqrt(c) * (1.0 + delta)", "math.sqrt(c)"),
            "low-rank: W with A_(t-1)": ("/ (a * (1.0 + q)), r)", "/ a, r)"),
            "low-rank: half of the inverse": ("    packed_solve_upper(state.factor, r)\n", ""),
            "E17: low-rank soba's sign": ("_add(state.weights, z, -step)", "_add(state.weights, z, step)"),
            "low-rank: the stored rows' sign": ("step * coefficients[i])", "-step * coefficients[i])"),
            "low-rank: Q with A_(t-1)": ("state.quadratic_sum[()] += q / (1.0 + q)", "state.quadratic_sum[()] += q"),
            "E19: low-rank soba's rejected rounds in Q": (
                "    if state.margin_sum.item() + m < 0.0:\n        return\n",
                "    if state.margin_sum.item() + m < 0.0:\n        state.quadratic_sum[()] += q\n        return\n",
            ),
            "low-rank: an empty factor from outside is used": ("if not known <= 2.0 * most:", "if False:"),
        },
    ),
    Place(
        "learners/algorithms/second_order/soba_newton.py",
        (_LEARNERS + "test_soba_newton.py",),
        {
            "soba-newton: missing 1/p": ("slope / rounds.propensities[t]", "slope"),
            "soba-newton: learns where the leader was right": (
                "if rounds.correct[t] and led != y:",
                "if rounds.correct[t]:",
            ),
            "soba-newton: uphill": ("(parameters.eta * margin - 1.0)", "(1.0 - parameters.eta * margin)"),
            "E19: soba-newton's l'' as printed": (
                "(parameters.eta * margin - 1.0)",
                "(0.5 * parameters.eta * margin - 1.0)",
            ),
            "soba-newton: 1 - η for 2 - η": ("(2.0 - parameters.eta)", "(1.0 - parameters.eta)"),
            "soba-newton: argmax over updated W": (
                "leader(rounds.evidence[t])",
                "leader(row(rounds.contexts, t)[1] @ state.weights[row(rounds.contexts, t)[0]])",
            ),
            "soba-newton: ε for D": ("1.0 / (4.0 * beta**2 * D**2)", "1.0 / (4.0 * beta**2)"),
            "soba-newton: G without K": ("16.0 * X * K / gamma", "16.0 * X / gamma"),
        },
    ),
    Place(
        "learners/mathematics/logistic_estimate.py",
        (_LEARNERS + "test_newtron.py",),
        {
            "newtron: missing 1/p": ("else coefficients[label]) / propensity", "else coefficients[label])"),
            "newtron: the published ±1/K": (
                "coefficients[label] += size",
                "coefficients[label] = size / K",
            ),
            "newtron: κ = 1": ("return propensity if correct else 1.0", "return 1.0"),
            "newtron: softmax without α": ("coefficients[k] = alpha * s[k]", "coefficients[k] = s[k]"),
        },
    ),
    Place(
        "learners/algorithms/second_order/pnewtron.py",
        (_LEARNERS + "test_newtron.py",),
        {
            "pnewtron: uphill": ("(a * w - step", "(a * w + step"),
            "pnewtron: W by the old A": ("step * G) / state.diagonal[i, k]", "step * G) / a"),
            "pnewtron: no ball": ("parameters.projected and norm > parameters.radius", "False"),
            "pnewtron: always in the ball": ("parameters.projected and norm >", "norm >"),
            "pnewtron: the norm's cross term forgotten": ("* (state.weights[i, k] + w)", "* (state.weights[i, k] - w)"),
            "pnewtron: a collapsed norm not afresh": ("new < _COLLAPSE * old", "new < 0.0 * old"),
            "pnewtron: A starts as D·I": (
                "state.diagonal[:] = 1.0 / ball_of(self)",
                "state.diagonal[:] = ball_of(self)",
            ),
            "pnewtron: b without the curvature": ("step = 1.0 - kappa * beta * inner(c, s)", "step = 1.0"),
            "pnewtron: t one too large": (
                "_multiplier(parameters, state), scheduled_rate(parameters.exploration, state.rounds.item())",
                "_multiplier(parameters, state), scheduled_rate(parameters.exploration, state.rounds.item() + 1)",
            ),
        },
    ),
    Place(
        "learners/algorithms/second_order/newtron.py",
        (_LEARNERS + "test_newtron.py",),
        {
            "newtron: b without the curvature": ("(1.0 - kappa * beta * inner(c, s)) * c", "c"),
            "newtron: A starts as D·I": ("1.0 / ball_of(self), self.problem", "ball_of(self), self.problem"),
            "newtron: t one too large": (
                "scheduled_rate(parameters.exploration, state.rounds.item())",
                "scheduled_rate(parameters.exploration, state.rounds.item() + 1)",
            ),
        },
    ),
    Place(
        "learners/algorithms/second_order/newtron.py",
        (_LEARNERS + "test_delayed.py",),
        {
            "newtron: recomputed scores of the fold's first weights": (
                "        if not parameters.as_of_prediction:\n            _minimize(parameters.radius, state)\n    if",
                "    if not parameters.as_of_prediction:\n        _minimize(parameters.radius, state)\n    if",
            ),
        },
    ),
    Place(
        "learners/algorithms/second_order/pnewtron.py",
        (_LEARNERS + "test_delayed.py",),
        {"pnewtron: recomputed scores before projection": ("            s *= _multiplier(parameters, state)\n", "")},
    ),
    Place(
        "learners/checks.py",
        (_LEARNERS + "test_checks.py",),
        {
            "checks: a label too large": (
                "labels[t] < 0 or labels[t] >= K:\n            return _LABEL",
                "labels[t] < 0 or labels[t] > K:\n            return _LABEL",
            ),
            "checks: a leftover of 1": ("leftovers[t] < 1.0", "leftovers[t] <= 1.0"),
        },
    ),
    Place(
        "learners/context_checks.py",
        (_LEARNERS + "test_checks.py",),
        {
            "checks: an index too large": ("index >= n_features", "index > n_features"),
            "checks: an index twice": ("index > before", "index >= before"),
            "checks: starts that fall": ("falls += starts[i + 1] < starts[i]", "falls += 0"),
            "checks: fewer indices than values": ("if len(indices) != len(values)", "if len(indices) > len(values)"),
        },
    ),
    Place(
        "learners/algorithms/improper/folklore.py",
        (_LEARNERS + "test_folklore.py",),
        {
            "E8: G without -2γHW": ("sigma[k] - 2.0 * constant * r[k]", "sigma[k]"),
            "E9: the surrogate's constant as printed": (
                "1.0 / (2.0 * comparator_bound * norm_bound + math.log(n_labels) + 2.0)",
                "1.0 / (comparator_bound * norm_bound + math.log(n_labels) / 2.0)",
            ),
            "E10: the bound without the 1/4": ("/ (4.0 * constant)", "/ constant"),
            "folklore: logits without the bias": ("0.25 * P[k, k] - 0.5", "-0.5"),
            "folklore: h's sign": ("0.25 * P[k, k] - 0.5", "0.25 * P[k, k] + 0.5"),
            "folklore: λ = X/B": (
                "self.comparator_bound / (2.0 * self.problem.norm_bound)",
                "self.comparator_bound / self.problem.norm_bound",
            ),
            "folklore: A shrinks": (
                "packed_rank_one(inverse, direction, -constant)",
                "packed_rank_one(inverse, direction, constant)",
            ),
            "folklore: h without the change of A": ("_add(solution, -constant * pull, direction)", "pass"),
            "folklore: ln T for ln(1 + T)": ("math.log1p(rounds)", "math.log(rounds)"),
        },
    ),
    Place(
        "learners/evaluation/folklore_to_batch.py",
        ("tests/learners/algorithms/test_folklore.py",),
        {"online-to-batch: a step too far": ("true_labels, step - 1)", "true_labels, step)")},
    ),
    Place(
        "learners/algorithms/improper/folklore_bandit.py",
        (
            _LEARNERS + "test_bandit_reduction.py",
            _CONTRACT + "::test_bandit_learner_sees_only_the_bit[folklore-bandit]",
        ),
        {
            "reduction: learns from every right answer": ("rounds.correct & explored(", "rounds.correct | explored("),
            "reduction: the coin without 1/K": ("rounds.evidence[:, -1] / n_labels", "rounds.evidence[:, -1]"),
            "reduction: the coin without the propensity": (
                "rounds.leftovers * rounds.propensities <",
                "rounds.leftovers <",
            ),
            "reduction: γ/(K - 1) on every label": (
                "rate / self.problem.n_labels",
                "rate / (self.problem.n_labels - 1)",
            ),
            "reduction: no γ in the evidence": ("np.full((contexts.n, 1), rate)", "np.zeros((contexts.n, 1))"),
            "reduction: rate without K": (
                "self.problem.n_labels * self.base.regret_bound(t)",
                "self.base.regret_bound(t)",
            ),
            "reduction: t one too large": ("t = rounds + 1\n", "t = rounds + 2\n"),
            "reduction: true labels as served to others": (
                "true_labels=chosen.labels",
                "true_labels=chosen.true_labels",
            ),
        },
    ),
    Place(
        "learners/algorithms/second_order/epsilon_greedy_ridge.py",
        (
            *laws(
                _LEARNERS + "test_ridge.py",
                "test_state_solves_the_normal_equations",
                "test_falling_exploration",
                "test_only_the_served_label_learns",
            ),
            *laws(
                _LEARNERS + "test_inverse.py",
                "test_the_matrix_is_the_sum_of_the_updates",
                "test_a_damaged_inverse_is_computed_anew",
            ),
            _CONTRACT + "::test_sparse_contexts_are_the_dense_ones[epsilon-greedy-ridge]",
        ),
        {
            "ridge: wrong answers rewarded": ("1.0 if rounds.correct[t] else 0.0", "1.0"),
            "ridge: W with the old inverse": ("((reward - prediction) / (1.0 + q))", "(reward - prediction)"),
            "ridge: every label learns": (
                "state.inverses[k], state.weights[:, k]\n    add",
                "state.inverses[k], state.weights[:, 0]\n    add",
            ),
            "ridge: the inverse grows": ("-1.0 / (1.0 + q))", "1.0 / (1.0 + q))"),
            "ridge: t one too large": ("state.rounds.item())", "state.rounds.item() + 1)"),
            "ridge: no floor under the theorem's exploration": ("1 / 3, learner.least_exploration", "1 / 3, 0.0"),
            "ridge: no floor under anytime exploration": ("K, learner.least_exploration)", "K)"),
            "ridge: a square root for a cube root": ("Schedule(float(K), 1 / 3", "Schedule(float(K), 1 / 2"),
            "ridge: A starts as I/a": ("1.0 / self.regularization", "self.regularization"),
            "ridge: a matrix of one label": ("add_square(state.matrices[k]", "add_square(state.matrices[0]"),
            "ridge: targets of wrong answers": ("+= reward * x[i]", "+= x[i]"),
            "ridge: a context left behind": ("x[indices[position]] = 0.0", "x[indices[position]] *= 0.5"),
        },
    ),
]
