"""Errors in the algorithms: printed errata put back, wrong weights, signs, orders, off by one."""

from tests.mutation.mutation import Place

_LEARNERS = "tests/learners/"
_TRACES = _LEARNERS + "test_traces.py"
_CONTRACT = _LEARNERS + "test_contract.py"
_FLOORS = _CONTRACT + "::test_decisions_are_distributions"
_SPARSE = _CONTRACT + "::test_sparse_contexts_are_the_dense_ones"
_COUNTS = _CONTRACT + "::test_fold_counts_rounds"

LEARNERS = [
    Place(
        "learners/gaptron.py",
        (_TRACES, _LEARNERS + "test_gaptron.py", _FLOORS),
        {
            "gaptron: missing 1/p": ("1.0 / rounds.propensities[t]", "1.0"),
            "gaptron: the present 1/p": (
                "            if parameters.as_of_prediction:\n",
                "            if not parameters.full_information:\n"
                "                present, now = np.zeros(K), np.empty(K)\n"
                "                score(state.direction, indices, values, present)\n"
                "                present *= _multiplier(parameters, state)\n"
                "                _explore(parameters, state, present, now)\n"
                "                weight = 1.0 / now[y]\n"
                "            if parameters.as_of_prediction:\n",
            ),
            "gaptron: present scores as of prediction": (
                "s[:] = rounds.evidence[t]",
                "score(state.direction, indices, values, s)",
            ),
            "gaptron: learns from wrong answers": ("rounds.labels[t] if rounds.correct[t] else -1", "rounds.labels[t]"),
            "gaptron: uphill": ("coefficients[k] *= -step * weight", "coefficients[k] *= step * weight"),
            "gaptron: projection before the step": (
                "    change = add_outer(state.direction, coefficients, indices, values)\n"
                "    state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)\n"
                "    if not parameters.anytime:\n"
                "        scale_into_ball(parameters.radius, state.direction, state.scale, state.squared_norm)",
                "    if not parameters.anytime:\n"
                "        scale_into_ball(parameters.radius, state.direction, state.scale, state.squared_norm)\n"
                "    change = add_outer(state.direction, coefficients, indices, values)\n"
                "    state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)",
            ),
            "gaptron: no projection": (
                "if not parameters.anytime:\n        scale_into_ball(",
                "if False:\n        scale_into_ball(",
            ),
            "gaptron: the step not rescaled": ("parameters.step / state.scale.item()", "parameters.step"),
            "gaptron: anytime without its ball": ("if multiplier * norm <= parameters.radius", "if True"),
            "gaptron: t one too large": ("state.rounds.item() + 1.0", "state.rounds.item() + 2.0"),
            "gaptron: no floor under exploration": ("max(rate, parameters.least_exploration)", "rate"),
            "gaptron: gap and rate added": (
                "max(gap_share(parameters.loss, s, top), _rate(parameters, state))",
                "min(1.0, gap_share(parameters.loss, s, top) + _rate(parameters, state))",
            ),
            "gaptron: the gap alone": (
                "max(gap_share(parameters.loss, s, top), _rate(parameters, state))",
                "gap_share(parameters.loss, s, top)",
            ),
            "gaptron: the rate alone": (
                "max(gap_share(parameters.loss, s, top), _rate(parameters, state))",
                "_rate(parameters, state)",
            ),
            "gaptron: decides without the multiplier": (
                "s = scores(state.direction, contexts) * _multiplier(parameters, state)",
                "s = scores(state.direction, contexts) * 1.0",
            ),
            "gaptron: a round applied twice": (
                "            _step(parameters, state, s, y, weight, indices, values, coefficients)",
                "            _step(parameters, state, s, y, weight, indices, values, coefficients)\n"
                "            _step(parameters, state, s, y, weight, indices, values, coefficients)",
            ),
            "gaptron: explores under full information": (
                "safe_step(loss, problem) * scale, 0.0",
                "safe_step(loss, problem) * scale, 0.1",
            ),
            "gaptron: eta_scale forgotten": (
                "safe_step(loss, problem, gamma) * scale, gamma",
                "safe_step(loss, problem, gamma), gamma",
            ),
            "gaptron: the norm never afresh": ("% _REFRESH == 0", "% _REFRESH == 1"),
        },
    ),
    Place(
        "learners/soba.py",
        (_TRACES, _LEARNERS + "test_soba.py", _FLOORS, _SPARSE),
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
                "                x[indices[position]] = 0.0\n        state.rounds",
                "                x[indices[position]] = 0.0\n            state.rounds",
            ),
            "soba: a context left behind": ("x[indices[position]] = 0.0", "x[indices[position]] *= 0.5"),
        },
    ),
    Place(
        "learners/soba_diagonal.py",
        (_TRACES, _LEARNERS + "test_soba.py", _FLOORS),
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
            "soba-diagonal: q of one row": ("(1.0 / a[rival] + 1.0 / a[y])", "(1.0 / a[y])"),
        },
    ),
    Place(
        "learners/soba_newton.py",
        (_LEARNERS + "test_soba_newton.py",),
        {
            "soba-newton: missing 1/p": ("slope / rounds.propensities[t]", "slope"),
            "soba-newton: learns where the leader was right": (
                "if rounds.correct[t] and led != y:",
                "if rounds.correct[t]:",
            ),
            "soba-newton: uphill": ("(parameters.eta * margin - 1.0)", "(1.0 - parameters.eta * margin)"),
            "E19: soba-newton's η": ("(2.0 - parameters.eta)", "(1.0 - parameters.eta)"),
            "soba-newton: argmax over updated W": (
                "leader(rounds.evidence[t])",
                "leader(scores(state.weights, rounds.contexts)[t])",
            ),
            "soba-newton: ε for D": ("1.0 / (4.0 * beta**2 * D**2)", "1.0 / (4.0 * beta**2)"),
            "soba-newton: G without K": ("16.0 * X * K / gamma", "16.0 * X / gamma"),
        },
    ),
    Place(
        "learners/banditron.py",
        (_LEARNERS + "test_banditron.py", _FLOORS, _COUNTS),
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
            "banditron: t one too large": ("(state.rounds.item() + 1)", "(state.rounds.item() + 2)"),
            "banditron: no floor under exploration": ("max(self.least_exploration, rate)", "rate"),
            "banditron: a square root for a cube root": ("** (1 / 3)", "** (1 / 2)"),
            "banditron: rounds counted twice": ("state.rounds[()] += 1", "state.rounds[()] += 2"),
        },
    ),
    Place(
        "learners/perceptron.py",
        (_LEARNERS + "test_perceptron.py",),
        {
            "perceptron: argmax over updated W": (
                "int(rounds.evidence[t, 0]), rounds",
                "int((row(rounds.contexts, t)[1] @ state.weights[row(rounds.contexts, t)[0]]).argmax()), rounds",
            ),
            "perceptron: uphill": ("state.weights, y, 1.0", "state.weights, y, -1.0"),
        },
    ),
    Place(
        "learners/newtron.py",
        (_LEARNERS + "test_newtron.py",),
        {
            "newtron: missing 1/p": ("else coefficients[label]) / propensity", "else coefficients[label])"),
            "newtron: the published ±1/K": (
                "coefficients[label] += size",
                "coefficients[label] = size / K",
            ),
            "newtron: κ = 1": ("return propensity if correct else 1.0", "return 1.0"),
            "newtron: softmax without α": ("coefficients[k] = alpha * s[k]", "coefficients[k] = s[k]"),
            "pnewtron: uphill": ("- step * G) / a[k]", "+ step * G) / a[k]"),
            "pnewtron: W by the old A": ("step * G) / a[k]", "step * G) / old"),
            "pnewtron: no ball": ('self.projection == "scale" and norm', 'self.projection == "none" and norm'),
            "pnewtron: the norm of the new rows alone": ("change -= squared_norm(w)", "change -= 0.0"),
            "pnewtron: A starts as D·I": ("state.diagonal[:] = 1.0 / self.radius", "state.diagonal[:] = self.radius"),
            "newtron: b without the curvature": ("(1.0 - kappa * beta * _inner(c, s)) * c", "c"),
            "newtron: γ spread over K - 1": ("+ rate / K", "+ rate / (K - 1)"),
        },
    ),
    Place(
        "learners/folklore.py",
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
            "online-to-batch: a step too far": ("true_labels, step - 1)", "true_labels, step)"),
        },
    ),
    Place(
        "learners/bandit_reduction.py",
        (_LEARNERS + "test_bandit_reduction.py",),
        {
            "reduction: learns from every right answer": ("rounds.correct & explored(", "rounds.correct | explored("),
            "reduction: the coin without 1/K": ("rounds.evidence[:, -1] / n_labels", "rounds.evidence[:, -1]"),
            "reduction: the coin without the propensity": (
                "rounds.leftovers * rounds.propensities <",
                "rounds.leftovers <",
            ),
            "reduction: explores without K": ("rate / self.problem.n_labels", "rate / (self.problem.n_labels + 1)"),
            "reduction: t one too large": ("t = rounds + 1\n", "t = rounds + 2\n"),
            "reduction: true labels as served to others": (
                "true_labels=chosen.labels",
                "true_labels=chosen.true_labels",
            ),
        },
    ),
    Place(
        "learners/bandit_perceptrons.py",
        (_LEARNERS + "test_bandit_perceptrons.py",),
        {
            "bandit perceptrons: a claim needs more than 0": ("initial=-np.inf) < 0.0", "initial=-np.inf) <= 0.0"),
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
        },
    ),
    Place(
        "learners/fenchel_young.py",
        (_LEARNERS + "test_fenchel_young.py",),
        {
            "fenchel-young: the step in nats": ("(1.0 - _LN2) * _LN2 / X**2", "(1.0 - _LN2) / X**2"),
            "fenchel-young: q without its 2": ("min(1.0, 2.0 * rest)", "rest"),
            "fenchel-young: softmax throughout": ("q = min(1.0, 2.0 * rest)", "q = 1.0"),
            "fenchel-young: uphill": ("coefficients[k] *= -step", "coefficients[k] *= step"),
            "fenchel-young: the step not rescaled": ("*= -step / state.scale.item()", "*= -step"),
            "fenchel-young: the bet's sign": ("v - _BETTING_STEP", "v + _BETTING_STEP"),
            "fenchel-young: wealth with the new fraction": ("(1.0 - outcome * v))", "(1.0 + outcome * v))"),
            "E16: fenchel-young's sum to t - 1": (
                "state.gradient_sum[()] += squared_norm(coefficients) * squared_norm(values)",
                "state.gradient_sum[()] += 0.5 * squared_norm(coefficients) * squared_norm(values)",
            ),
        },
    ),
    Place(
        "learners/adahedge.py",
        (_LEARNERS + "test_adahedge.py",),
        {
            "adahedge: losses of the other answer": ("0.5 * (1.0 - y *", "0.5 * (1.0 + y *"),
            "adahedge: ln 2d": ("/ math.log(d) if", "/ math.log(2 * d) if"),
            "adahedge: mix loss with the new gap": (
                "- temperature * (math.log(after) - math.log(before))",
                "+ temperature * (math.log(after) - math.log(before))",
            ),
            "adahedge: abstains with |ȳ|": (
                "distributions[:, 2] = 1.0 - np.abs(means)",
                "distributions[:, 2] = np.abs(means)",
            ),
            "adahedge: a label that is missing charged": ("loss[:] = 0.5", "loss[:] = 0.0"),
        },
    ),
    Place(
        "learners/boosting.py",
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
        "learners/ridge.py",
        (_LEARNERS + "test_ridge.py", _FLOORS),
        {
            "ridge: right answers alone": ("1.0 if rounds.correct[t] else 0.0", "1.0"),
            "ridge: W with the old inverse": ("((reward - prediction) / (1.0 + q))", "(reward - prediction)"),
            "ridge: the inverse grows": ("-1.0 / (1.0 + q))", "1.0 / (1.0 + q))"),
            "ridge: t one too large": ("(state.rounds.item() + 1)", "(state.rounds.item() + 2)"),
            "ridge: no floor under exploration": ("max(self.least_exploration, rate)", "rate"),
            "ridge: a context left behind": ("x[indices[position]] = 0.0", "x[indices[position]] *= 0.5"),
        },
    ),
]
