"""Errors in the learners whose state is weights: printed errata put back, wrong weights, signs, orders, off by one."""

from tests.mutation.mutation import Place, laws

_LEARNERS = "tests/learners/"
_TRACES = _LEARNERS + "test_traces.py"
_CONTRACT = _LEARNERS + "test_contract.py"
_ANY = ("test_decisions_are_distributions", "test_fold_counts_rounds")


def _of(tests: tuple[str, ...], *cases: str) -> tuple[str, ...]:
    """Laws of the contract, for some of its learners."""
    return laws(_CONTRACT, *(f"{test}[{case}]" for case in cases for test in tests))


_GAPTRON = (
    *laws(_TRACES, "test_micro_trace", "test_delayed_micro_trace"),
    *laws(
        _LEARNERS + "test_gaptron.py",
        "test_weights_follow_the_written_out_recursion",
        "test_adaptive_weights_follow_the_written_out_recursion",
        "test_answer_is_the_leader_with_the_larger_of_gap_and_rate",
        "test_anytime_exploration_falls_as_one_over_root_t",
        "test_ball_is_reached_and_left",
        "test_units_do_not_matter",
        "test_norm_is_computed_afresh_every_65536_rounds",
    ),
    *_of(_ANY, "gaptron", "gaptron-smooth_hinge-0.2-recompute", "gaptron-logistic-full"),
)

GRADIENT_LEARNERS = [
    Place(
        "learners/algorithms/first_order/gaptron.py",
        _GAPTRON,
        {
            "gaptron: missing 1/p": ("1.0 / rounds.propensities[t]", "1.0"),
            "gaptron: the present 1/p": (
                "            if parameters.as_of_prediction:\n",
                "            if not parameters.full_information:\n"
                "                now = np.empty(K)\n"
                "                _score(parameters, state, indices, values, s)\n"
                "                share = max(gap_share(parameters.loss, s, leader(s)), _rate(parameters, state))\n"
                "                mix_with_uniform(leader(s), share, now)\n"
                "                weight = 1.0 / now[y]\n"
                "            if parameters.as_of_prediction:\n",
            ),
            "gaptron: present scores as of prediction": (
                "s[:] = rounds.evidence[t]",
                "_score(parameters, state, indices, values, s)",
            ),
            "gaptron: learns from wrong answers": ("rounds.labels[t] if rounds.correct[t] else -1", "rounds.labels[t]"),
            "gaptron: uphill": ("coefficients[k] *= -step * weight", "coefficients[k] *= step * weight"),
            "gaptron: projection before the step": (
                "    change = add_outer(state.direction, coefficients, indices, values)\n"
                "    state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)\n"
                "    if parameters.mode == _FIXED:\n"
                "        scale_into_ball(parameters.radius, state.direction, state.scale, state.squared_norm)",
                "    if parameters.mode == _FIXED:\n"
                "        scale_into_ball(parameters.radius, state.direction, state.scale, state.squared_norm)\n"
                "    change = add_outer(state.direction, coefficients, indices, values)\n"
                "    state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)",
            ),
            "gaptron: no projection": (
                "if parameters.mode == _FIXED:\n        scale_into_ball(",
                "if False:\n        scale_into_ball(",
            ),
            "gaptron: the step not rescaled": ("parameters.step / state.scale.item()", "parameters.step"),
            "gaptron: anytime without its ball": ("if multiplier * norm <= parameters.radius", "if True"),
            "gaptron: t one too large": (
                "scheduled_rate(parameters.exploration, state.rounds.item())",
                "scheduled_rate(parameters.exploration, state.rounds.item() + 1)",
            ),
            "gaptron: no floor under the theorem's exploration": (
                "Schedule(c * c, 0.5, learner.least_exploration)",
                "Schedule(c * c, 0.5, 0.0)",
            ),
            "gaptron: no floor under anytime exploration": (
                "learner.problem.n_labels, learner.least_exploration)",
                "learner.problem.n_labels)",
            ),
            "gaptron: c/t for c²/t": ("Schedule(c * c,", "Schedule(c,"),
            "gaptron: gap and rate added": (
                "max(gap_share(parameters.loss, s, top), rate)",
                "min(1.0, gap_share(parameters.loss, s, top) + rate)",
            ),
            "gaptron: the gap alone": (
                "max(gap_share(parameters.loss, s, top), rate)",
                "gap_share(parameters.loss, s, top)",
            ),
            "gaptron: the rate alone": ("max(gap_share(parameters.loss, s, top), rate)", "rate"),
            "gaptron: scores without the multiplier": ("s *= _multiplier(parameters, state)", "s *= 1.0"),
            "gaptron: a round applied twice": (
                "            _step(parameters, state, s, y, weight, indices, values, coefficients)",
                "            _step(parameters, state, s, y, weight, indices, values, coefficients)\n"
                "            _step(parameters, state, s, y, weight, indices, values, coefficients)",
            ),
            "gaptron: explores under full information": ("Schedule(0.0, 1.0, 0.0)", "Schedule(0.0, 1.0, 0.1)"),
            "gaptron: the full step under bandit feedback": (
                "None if learner.needs_true_label else schedule.least",
                "None",
            ),
            "gaptron: eta_scale forgotten where the step is fixed": ("gamma) * learner.eta_scale", "gamma)"),
            "gaptron: eta_scale forgotten where gradients are averaged": ("1.0) * learner.eta_scale", "1.0)"),
            "gaptron: eta_scale forgotten where the step adapts": (
                "_ADAPTIVE, learner.eta_scale / learner",
                "_ADAPTIVE, 1.0 / learner",
            ),
            "gaptron: an adaptive step for X = 1": (
                "learner.eta_scale / learner.problem.norm_bound",
                "learner.eta_scale",
            ),
            "gaptron: an adaptive step without its weight": ("coefficients *= weight", "coefficients *= 1.0"),
            "gaptron: the norm never afresh": ("% _REFRESH == 0", "% _REFRESH == 1"),
        },
    ),
    Place(
        "learners/algorithms/first_order/banditron.py",
        (_LEARNERS + "test_banditron.py", *_of(_ANY, "banditron", "banditron-theorem-0.1")),
        {
            "banditron: missing 1/p": ("1.0 / rounds.propensities[t]", "1.0"),
            "banditron: argmax over updated W": (
                "led = int(rounds.evidence[t, 0])",
                "led = int((values @ state.weights[indices]).argmax())",
            ),
            "banditron: subtracts from the label served": (
                "led = int(rounds.evidence[t, 0])",
                "led = int(rounds.labels[t])",
            ),
            "banditron: the leader kept": ("state.weights, led, -1.0", "state.weights, led, 0.0"),
            "banditron: t one too large": ("state.rounds.item())", "state.rounds.item() + 1)"),
            "banditron: no floor under the theorem's exploration": ("1 / 3, learner.least_exploration", "1 / 3, 0.0"),
            "banditron: no floor under anytime exploration": (
                "learner.problem.n_labels, learner.least_exploration)",
                "learner.problem.n_labels)",
            ),
            "banditron: a square root for a cube root": ("constant, 1 / 3", "constant, 1 / 2"),
            "banditron: rounds counted twice": ("state.rounds[()] += 1", "state.rounds[()] += 2"),
        },
    ),
    Place(
        "learners/algorithms/first_order/perceptron.py",
        (_LEARNERS + "test_perceptron.py",),
        {
            "perceptron: argmax over updated W": (
                "int(rounds.evidence[t, 0]), rounds",
                "int((row(rounds.contexts, t)[1] @ state.weights[row(rounds.contexts, t)[0]]).argmax()), rounds",
            ),
            "perceptron: uphill": ("state.weights, y, 1.0", "state.weights, y, -1.0"),
            "perceptron: the leader kept": ("state.weights, led, -1.0", "state.weights, led, 0.0"),
        },
    ),
    Place(
        "learners/algorithms/first_order/bandit_perceptrons.py",
        (_LEARNERS + "test_bandit_perceptrons.py",),
        {
            "bandit perceptrons: a claim needs more than 0": ("s[leader(s)] < 0.0", "s[leader(s)] <= 0.0"),
            "bandit perceptrons: present claims": ("not nobody and s[label] >= 0.0", "s[label] >= 0.0"),
            "bandit perceptrons: wrong answers teach twice": ("if not nobody and s[label] >= 0.0:", "if not nobody:"),
            "bandit perceptrons: the others kept": (
                "if known and k != label and s[k] >= 0.0",
                "if known and k != label and s[k] > 0.0",
            ),
            "bandit perceptrons: the rational kernel's half": ("1.0 - 0.5 * min(", "1.0 - 0.25 * min("),
            "bandit perceptrons: support replaced": (
                "place == len(state.coefficients)",
                "place > len(state.coefficients)",
            ),
            "bandit perceptrons: a claim already made is corrected": (
                "known) and s[label] <= 0.0",
                "known) and s[label] >= 0.0",
            ),
            "bandit perceptrons: right claims teach though the label is not to be used": ("(nobody or known)", "True"),
            "bandit perceptrons: the label served is subtracted": (
                "coefficients[label] = 1.0",
                "coefficients[label] = -1.0",
            ),
            "bandit perceptrons: a longer context takes the place of a shorter": (
                "if same and np.count_nonzero(state.support[:, j]) == nonzeros:",
                "if same:",
            ),
            "bandit perceptrons: one update counted for all": (
                "            coefficients[k] = -1.0\n            updates += 1",
                "            coefficients[k] = -1.0\n            updates = 1",
            ),
        },
    ),
    Place(
        "learners/algorithms/improper/adahedge.py",
        (_LEARNERS + "test_adahedge.py",),
        {
            "adahedge: losses of the other answer": ("0.5 * (1.0 - y *", "0.5 * (1.0 + y *"),
            "adahedge: ln 2d": ("/ math.log(d) if", "/ math.log(2 * d) if"),
            "adahedge: the sign of the mix loss": (
                "- temperature * (math.log(after) - math.log(before))",
                "+ temperature * (math.log(after) - math.log(before))",
            ),
            "adahedge: abstains with |ȳ|": (
                "= abs(mean)\n        distributions[i, 2] = 1.0 - abs(mean)",
                "= 1.0 - abs(mean)\n        distributions[i, 2] = abs(mean)",
            ),
            "adahedge: a label that is missing charged": ("loss[:] = 0.5", "loss[:] = 0.0"),
        },
    ),
    Place(
        "learners/algorithms/improper/adaboost_olm.py",
        (_LEARNERS + "test_boosting.py",),
        {
            "E13: the costs' sign": ("sigma[k] - sigma[y] + 1.0", "sigma[y] - sigma[k] + 1.0"),
            "E13: the costs' indices": ("result[y, k] =", "result[k, y] ="),
            "boosting: right for wrong": ("int(named != y)", "int(named == y)"),
            "boosting: mistakes trusted": ("state.log_weights[i] -=", "state.log_weights[i] +="),
            "boosting: odds not halved": ("_log_sum_of_others(s, named)) / 2.0", "_log_sum_of_others(s, named))"),
            "boosting: the weak learner's answers": ("answers.append(leader(s))", "answers.append(named)"),
        },
    ),
    Place(
        "learners/algorithms/first_order/squarecb.py",
        (
            *laws(
                _LEARNERS + "test_squarecb.py",
                "test_the_exploration_is_the_formula",
                "test_the_regression_is_the_plain_one",
                "test_numbers_too_small_to_square_do_no_harm",
            ),
            *_of(_ANY, "squarecb"),
        ),
        {
            "squarecb: the residual's sign": (
                "residual = 1.0 / (1.0 + math.exp(-s)) - reward",
                "residual = reward - 1.0 / (1.0 + math.exp(-s))",
            ),
            "squarecb: wrong answers rewarded": ("1.0 if rounds.correct[t] else 0.0", "1.0"),
            "squarecb: right answers weighted by 1/p": (
                "reward = 1.0 if rounds.correct[t]",
                "reward = 1.0 / rounds.propensities[t] if rounds.correct[t]",
            ),
            "squarecb: steps weighted by 1/p": (
                "_update(parameters.learning_rate, state",
                "_update(parameters.learning_rate / rounds.propensities[t], state",
            ),
            "squarecb: the gap's weight without K": ("math.sqrt(K * (state", "math.sqrt(1.0 * (state"),
            "squarecb: t one too large": ("(state.rounds.item() + 1.0)", "(state.rounds.item() + 2.0)"),
            "squarecb: γ grows with t": (
                "math.sqrt(K * (state.rounds.item() + 1.0))",
                "K * (state.rounds.item() + 1.0)",
            ),
            "squarecb: no uniform share": ("gap_weight, parameters.least_exploration,", "gap_weight, 0.0,"),
            "squarecb: a grown feature keeps its old weight": (
                "state.weights[i, k] *= state.sizes[i] / x",
                "state.weights[i, k] *= 1.0",
            ),
            "squarecb: sizes not updated": ("state.sizes[i] = x", "state.sizes[i] = max(state.sizes[i], 1.0)"),
            "squarecb: the present sizes alone": ("if x > state.sizes[i]:", "if x > 0.0:"),
            "squarecb: relative sizes not squared": ("(x / state.sizes[i]) ** 2", "x / state.sizes[i]"),
            "squarecb: weights not held": ("min(largest, max(-largest, moved))", "moved"),
            "squarecb: the present gradient alone": ("state.gradient_sums[i, k] + g * g", "g * g"),
            "squarecb: the root forgotten": ("(g / math.sqrt(total))", "(g / total)"),
            "squarecb: steps in the feature's own unit": (
                "(g / math.sqrt(total)) / state.sizes[i]",
                "(g / math.sqrt(total))",
            ),
            "squarecb: t off by one in the step": (
                "math.sqrt(state.rounds.item() / state",
                "math.sqrt((state.rounds.item() + 1.0) / state",
            ),
        },
    ),
]
