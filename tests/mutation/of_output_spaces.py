"""Errors in the output spaces: misprinted constants, wrong means, draws that are not the law they tell."""

from tests.mutation.mutation import Place, laws

_FILE = "tests/learners/output_spaces/test_output_spaces.py"
_CONSTANTS = laws(
    _FILE,
    "test_constants_are_those_of_the_vertices",
    "test_what_looks_like_a_vertex",
    "test_too_weak_a_regulariser_is_refused",
)
_MEANS = laws(_FILE, "test_micro_trace", "test_mean_maximises", "test_nearest_is_nearest")
_DRAWS = laws(_FILE, "test_random_vertex_has_the_mean", "test_answers_follow_their_law")
_LOSSES = laws(
    _FILE,
    "test_surrogate_is_the_formula",
    "test_surrogate_is_zero_at_the_mean_alone",
    "test_ranking_loss_is_as_steep_as_it_says",
)
_SPACES = (*_CONSTANTS, *_MEANS, *_DRAWS, *_LOSSES)

OUTPUT_SPACES = [
    Place(
        "learners/output_spaces/permutahedron.py",
        _SPACES,
        {
            "E14: the ranking's γ as printed": (
                "gamma, nu = math.sqrt(3.0 / cubic)",
                "D = float(self.n_items)\n        gamma, nu = math.sqrt((2 * D + 1) / (6 * D * (D + 1))) / (D - 1)",
            ),
            "ranking: swaps with half their probability": ("min(surplus, lack) /", "0.5 * min(surplus, lack) /"),
            "ranking: swaps the other way round": ("if uniforms[i] < swaps[2][i]:", "if uniforms[i] >= swaps[2][i]:"),
            "ranking: the probability of no swap": (
                "probability *= 1.0 - swaps[2][i]",
                "probability *= swaps[2][i]",
            ),
            "ranking: the worst first": ("order = np.argsort(-scores, kind", "order = np.argsort(scores, kind"),
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
            "randomize: the nearest not counted": ("(1.0 - p) * is_nearest + p", "p"),
            "surrogate: the slack left out": ("max(0.0, slack)", "0.0"),
            "surrogate: the square not halved": (
                "regularization / 2.0 * float(excess @ excess)",
                "regularization * float(excess @ excess)",
            ),
            "loss share with 2 for 4": ("4.0 * self.gamma / (", "2.0 * self.gamma / ("),
        },
    ),
    Place(
        "learners/output_spaces/binary.py",
        _SPACES,
        {
            "labels drawn against their mean": ("(uniforms < mean)", "(uniforms > mean)"),
            "binary γ for the wrong norm": ("Constants(1.0 / math.sqrt(n),", "Constants(1.0 / n,"),
            "grades: each step drawn by itself": (
                "np.asarray(uniforms[0] < mean, dtype",
                "np.asarray((uniforms[0] * np.arange(1, len(mean) + 1)) % 1.0 < mean, dtype",
            ),
            "grades: any zeros and ones": (" and (np.diff(output) <= 0.0).all())", ")"),
            "hamming: agreement for difference": ("(1.0 - 2.0 * truth) + truth", "(2.0 * truth - 1.0) + 1.0 - truth"),
        },
    ),
    Place(
        "learners/output_spaces/birkhoff.py",
        _SPACES,
        {
            "matching: λ without n": ("1.0 / (n * self.sharpness)", "1.0 / self.sharpness"),
            "matching: the entropy without μ": ("entropy / self.sharpness", "entropy"),
            "matching: any permutation for the best": ("cost = -gains[i - 1, j - 1]", "cost = gains[i - 1, j - 1]"),
            "matching: weights not taken out": (
                "rest[i, permutation[i]] -= weight",
                "rest[i, permutation[i]] -= 0.5 * weight",
            ),
        },
    ),
    Place(
        "learners/output_spaces/balancing.py",
        (*_SPACES, f"{_FILE}::test_the_mean_of_matchings_is_exact"),
        {
            "balancing: the columns never scaled": ("v += share * step", "v += 0.0 * step"),
            "balancing: the Hessian without its columns": ("// 2 + j] += columns[j]", "// 2 + j] += 1e3 * columns[j]"),
            "balancing: a tolerance of a thousandth": ("_TOLERANCE = 1e-11", "_TOLERANCE = 1e-3"),
        },
    ),
    Place(
        "learners/output_spaces/simplex.py",
        _SPACES,
        {
            "simplex: λ forgotten in the mean": (
                "softmax(scores / self.regularization, result)",
                "softmax(scores, result)",
            ),
            "simplex: λ for 1/λ": ("self.regularization * (top +", "1.0 / self.regularization * (top +"),
        },
    ),
    Place(
        "learners/output_spaces/isotonic.py",
        laws(_FILE, "test_isotonic_fit", "test_mean_maximises"),
        {
            "isotonic: pools what falls": ("means[n_blocks - 1] <= mean", "means[n_blocks - 1] >= mean"),
            "isotonic: blocks of one size": ("(sizes[n_blocks] / total)", "0.5"),
        },
    ),
]
