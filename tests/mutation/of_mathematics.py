"""Errors in what the learners share: drawing, exploring, losses, steps, linear algebra, output spaces."""

from tests.mutation.mutation import Place

_LEARNERS = "tests/learners/"
_EXPLORATION = tuple(  # without the slow one
    f"{_LEARNERS}test_exploration.py::{law}"
    for law in (
        "test_draw_is_the_inverse_of_the_cumulated_distribution",
        "test_draw_at_the_edges",
        "test_leftovers_are_uniform_for_every_label",
        "test_leaders_are_the_first_of_the_largest",
        "test_mixing_gives_each_label_its_share",
        "test_softmax_is_stable",
    )
)
_GAPTRON = (_LEARNERS + "test_traces.py", _LEARNERS + "test_gaptron.py")
_ALGEBRA = (_LEARNERS + "test_linear_algebra.py", *_GAPTRON)
_SPACES = (_LEARNERS + "test_output_spaces.py",)

MATHEMATICS = [
    Place(
        "learners/exploration.py",
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
            "draw: the uniform number itself as leftover": ("(uniforms[i] - before) / propensities[i]", "uniforms[i]"),
            "tie: the last leader": ("if scores[k] > scores[best]:", "if scores[k] >= scores[best]:"),
            "tie: the last rival": ("k != excluded and scores[k] >", "k != excluded and scores[k] >="),
            "γ/(K - 1) on the others, in kernels": (
                "distribution[:] = share / len(distribution)",
                "distribution[:] = share / (len(distribution) - 1)\n    distribution[top] = 0.0",
            ),
            "γ/(K - 1) on the others, in batches": (
                "distributions = np.full((len(tops), n_labels), share / n_labels)",
                "distributions = np.full((len(tops), n_labels), share / (n_labels - 1))\n"
                "    distributions[np.arange(len(tops)), tops] = 0.0",
            ),
            "softmax without its shift": ("np.exp(scores[k] - top)", "np.exp(scores[k])"),
        },
    ),
    Place(
        "learners/exploration.py",
        ("tests/learners/test_soba.py", "tests/learners/test_traces.py"),
        {
            "ȳ including y": ("if k != excluded and", "if"),
            "adaptive rate: t one too large": ("/ (rounds + 1)", "/ (rounds + 2)"),
            "adaptive rate without the 1": ("(1.0 + quadratic_sum)", "quadratic_sum"),
            "adaptive rate without K": ("n_labels * (1.0 +", "(1.0 +"),
        },
    ),
    Place(
        "learners/losses.py",
        _GAPTRON,
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
        "learners/gaptron_schedules.py",
        ("tests/learners/test_gaptron.py",),
        {
            "E1: smooth hinge step as printed": ("1 / (4 * K * X**2)", "1 / (2 * K * X**2)"),
            "E2: smooth hinge exploration as printed": ("2 * K**2 * X**2 * D**2,", "4 * K**2 * X**2 * D**2,"),
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
        "learners/linear_algebra.py",
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
        "learners/ball.py",
        ("tests/learners/test_newtron.py",),
        {
            "minimizer: the sign of b": ("result[i] = -linear[i]", "result[i] = linear[i]"),
            "minimizer: scaled, not solved": (
                "shift += (norm / radius - 1.0)",
                "break\n        shift += (norm / radius - 1.0)",
            ),
        },
    ),
    Place(
        "learners/regularized_softmax.py",
        ("tests/learners/test_folklore.py",),
        {
            "fixed point: the sign of A": ("residual[i] += matrix[i, j]", "residual[i] -= matrix[i, j]"),
            "covariance without its mean": ("probabilities[k] * (vector[k] - mean)", "probabilities[k] * vector[k]"),
        },
    ),
    Place(
        "learners/features.py",
        ("tests/learners/test_features.py",),
        {
            "norm policy: everything scaled": ("largest * norms > bound", "largest * norms > 0.0"),
            "norm policy: the bound forgotten": ("np.repeat(bound / ", "np.repeat(1.0 / "),
        },
    ),
    Place(
        "learners/output_spaces/permutahedron.py",
        _SPACES,
        {
            "E14: the ranking's γ as printed": (
                "gamma, nu = math.sqrt(3.0 / cubic)",
                "D = float(self.n_items)\n        gamma, nu = math.sqrt((2 * D + 1) / (6 * D * (D + 1))) / (D - 1)",
            ),
            "ranking: swaps with half their probability": ("min(surplus, lack) /", "0.5 * min(surplus, lack) /"),
            "ranking: M for D² + 1": (
                "6.0 / (self.n_items * (self.n_items**2 - 1.0))",
                "6.0 / (self.n_items * (self.n_items**2 + 1.0))",
            ),
        },
    ),
    Place(
        "learners/output_spaces/base.py",
        _SPACES,
        {
            "randomize: half as often": ("min(1.0, 2.0 * self.distance(", "min(1.0, self.distance("),
            "randomize: the other way round": ("if uniforms[0] < self.mixing", "if uniforms[0] >= self.mixing"),
            "loss share with 2 for 4": ("4.0 * self.gamma / (", "2.0 * self.gamma / ("),
        },
    ),
    Place(
        "learners/output_spaces/binary.py",
        _SPACES,
        {
            "labels drawn against their mean": ("(uniforms < mean)", "(uniforms > mean)"),
            "binary γ for the wrong norm": ("Constants(1.0 / math.sqrt(n),", "Constants(1.0 / n,"),
        },
    ),
    Place(
        "learners/output_spaces/birkhoff.py",
        _SPACES,
        {
            "matching: λ without n": ("1.0 / (n * self.sharpness)", "1.0 / self.sharpness"),
            "matching: weights not taken out": (
                "rest[i, permutation[i]] -= weight",
                "rest[i, permutation[i]] -= 0.5 * weight",
            ),
        },
    ),
    Place(
        "learners/structured.py",
        _SPACES,
        {
            "structured: uphill": ("if adaptive else -step", "if adaptive else step"),
            "structured: the average with the new weights": (
                "state.weights_sum[:] += state.weights\n        state.rounds[()] += 1",
                "state.weights_sum[:] += 2.0 * state.weights\n        state.rounds[()] += 1",
            ),
            "E16: a step without the present gradient": (
                "state.gradient_sum[()] += squared_norm(coefficients) * squared_norm(values)",
                "state.gradient_sum[()] += 0.5 * squared_norm(coefficients) * squared_norm(values)",
            ),
        },
    ),
]
