"""Errors in the output spaces, and in the learner whose answers are their vertices."""

from tests.mutation.mutation import Place

_SPACES = ("tests/learners/test_output_spaces.py",)

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
        "learners/descent.py",
        ("tests/learners/test_fenchel_young.py", "tests/learners/test_structured.py"),
        {
            "descent: uphill": ("coefficients[k] *= -step", "coefficients[k] *= step"),
            "descent: the step not rescaled": ("*= -step / state.scale.item()", "*= -step"),
            "descent: the bet's sign": ("v - _BETTING_STEP", "v + _BETTING_STEP"),
            "descent: the adaptive step without its √2": ("2.0 * ball / math.sqrt(2.0)", "2.0 * ball"),
            "descent: no ball": ("scale_into_ball(steps.radius,", "scale_into_ball(math.inf,"),
        },
    ),
]
