"""Errors in the output spaces: misprinted constants, wrong means, draws that do not match their probabilities."""

from tests.mutation.mutation import Errors

_SPACES = (
    "test_constants_match_the_vertices",
    "test_contains_accepts_only_vertices",
    "test_hyperparameters_outside_the_theory_are_refused",
    "test_output_spaces::test_micro_trace",
    "test_decoding_maximizes_the_regularized_score",
    "test_nearest_is_the_closest_vertex",
    "test_random_vertex_has_the_mean",
    "test_sample_frequencies_match_probabilities",
    "test_surrogate_matches_the_formula",
    "test_surrogate_matches_the_formula",
    "test_ranking_gamma_is_exact",
)

OUTPUT_SPACES = (
    Errors(
        concept="output space",
        home="OutputSpace",
        laws=_SPACES,
        errors=(
            (
                "half the mixing probability",
                "mixing",
                "2.0 * self.distance(self.nearest(mean), mean)",
                "self.distance(self.nearest(mean), mean)",
            ),
            ("mixing reversed", "randomize", "uniforms[0] < self.mixing(mean)", "uniforms[0] >= self.mixing(mean)"),
            (
                "probability without the nearest vertex",
                "probability",
                "(1.0 - p) * is_nearest + p * self.vertex_probability(mean, output)",
                "p * self.vertex_probability(mean, output)",
            ),
            ("slack left out", "quadratic_surrogate", "max(0.0, slack)", "0.0"),
            ("square not halved", "quadratic_surrogate", "regularization / 2.0", "regularization"),
            ("loss share with 2 in place of 4", "Constants.loss_share", "4.0", "2.0"),
        ),
    ),
    Errors(
        concept="ranking space",
        home="Ranking",
        laws=_SPACES,
        errors=(
            (
                "E14, γ as printed",
                "constants",
                "math.sqrt(3.0 / cubic)",
                "math.sqrt((2 * self.n_items + 1) / (6 * self.n_items * (self.n_items + 1))) / (self.n_items - 1)",
            ),
            ("half the swap probability", "transfers", "min(surplus, lack)", "0.5 * min(surplus, lack)"),
            ("swaps reversed", "_swap", "uniforms[i] < swaps[2][i]", "uniforms[i] >= swaps[2][i]"),
            ("swap probability complemented", "_swap_probability", "1.0 - swaps[2][i]", "swaps[2][i]"),
            ("worst item first", "decode", "-scores", "scores"),
            ("D² + 1 in the normalizer of the loss", "target_loss", "self.n_items**2 - 1.0", "self.n_items**2 + 1.0"),
        ),
    ),
    Errors(
        concept="binary space",
        home="Multilabel",
        laws=_SPACES,
        errors=(
            ("labels drawn with the complementary probability", "random_vertex", "uniforms < mean", "uniforms > mean"),
            ("γ for the wrong norm", "Binary.constants", "1.0 / math.sqrt(n)", "1.0 / n"),
            (
                "steps of a level drawn separately",
                "Ordinal.random_vertex",
                "uniforms[0]",
                "uniforms[0] * np.arange(1, len(mean) + 1) % 1.0",
            ),
            (
                "agreement in place of difference",
                "Binary.target_loss",
                "output * (1.0 - 2.0 * truth) + truth",
                "output * (2.0 * truth - 1.0) + 1.0 - truth",
            ),
        ),
    ),
    Errors(
        concept="matching space",
        home="Matching",
        laws=_SPACES,
        errors=(
            ("λ without n", "constants", "n * self.sharpness", "self.sharpness"),
            ("entropy without μ", "surrogate", "entropy / self.sharpness", "entropy"),
            ("any permutation in place of the best", "_search", "-gains[i - 1, j - 1]", "gains[i - 1, j - 1]"),
            (
                "weights only half removed",
                "_take_out",
                "rest[i, permutation[i]] -= weight",
                "rest[i, permutation[i]] -= 0.5 * weight",
            ),
        ),
    ),
    Errors(
        concept="balancing",
        home="balance",
        laws=(
            "test_output_spaces::test_micro_trace",
            "test_decoding_maximizes_the_regularized_score",
            "test_nearest_is_the_closest_vertex",
            "test_matching_mean_is_doubly_stochastic",
        ),
        errors=(
            ("columns never scaled", "balance", "v += share * step", "v += 0.0 * step"),
            (
                "Hessian diagonal too large",
                "_newton_step",
                "hessian[j * (j + 1) // 2 + j] += columns[j]",
                "hessian[j * (j + 1) // 2 + j] += 1000.0 * columns[j]",
            ),
        ),
    ),
    Errors(
        concept="simplex",
        home="Multiclass",
        laws=_SPACES,
        errors=(
            ("λ missing from the mean", "decode", "scores / self.regularization", "scores"),
            (
                "1/λ in place of λ",
                "surrogate",
                "self.regularization * (top + math.log(float(np.exp(ahead - top).sum())))",
                "1.0 / self.regularization * (top + math.log(float(np.exp(ahead - top).sum())))",
            ),
        ),
    ),
    Errors(
        concept="isotonic fit",
        laws=("test_decoding_maximizes_the_regularized_score",),
        errors=(
            ("pools decreasing blocks", "_pool", "means[n_blocks - 1] <= mean", "means[n_blocks - 1] >= mean"),
            ("blocks of equal weight", "_pool", "sizes[n_blocks] / total", "0.5"),
        ),
    ),
)
