"""Errors in what happens to contexts: the log keeps them as sent, hashes never change, fields are checked."""

from tests.mutation.mutation import Errors

CONTEXTS = (
    Errors(
        concept="preparation",
        laws=(
            "test_the_constant_is_one_more_feature",
            "test_context_and_constant_stay_within_the_bound",
            "test_contexts_that_were_prepared_are_not_prepared_again",
            "test_scale_never_stretches",
        ),
        errors=(
            (
                "the constant has no share of the bound",
                "Preparation.room",
                "math.sqrt(0.75) * self.bound if self.intercept else self.bound",
                "self.bound",
            ),
            ("the constant is the bound", "Preparation.constant", "self.bound / 2.0", "self.bound"),
            ("short contexts are stretched", "preparation._fit", "largest > room / norm", "True"),
            ("prepared contexts are prepared again", "preparation._write", "len(as_sent) == 0 or as_sent[i]", "True"),
        ),
    ),
    Errors(
        concept="named features",
        laws=(
            "test_hashes_never_change",
            "test_values_become_named_numbers",
            "test_collisions_add_up",
            "test_interactions_are_products",
            "test_the_order_of_members_does_not_matter",
            "test_the_parts_are_the_vector",
        ),
        errors=(
            ("no signs", "NamedKind._vector", "value if hashed < HALF else -value", "value"),
            (
                "collisions replace",
                "NamedKind._vector",
                "vector.get(index, 0.0) + (value if hashed < HALF else -value)",
                "(value if hashed < HALF else -value)",
            ),
            ("products without signs", "NamedKind._products", "signs * values", "values"),
            ("products of hashes commute", "combined", "first * _STEP + second", "first + second"),
            ("the order of members matters", "NamedKind.checked", "len(vector) < count", "False"),
        ),
    ),
    Errors(
        concept="precision",
        laws=(
            "test_numbers_are_rounded_once",
            "test_a_number_beyond_single_precision_is_named",
            "test_every_worker_learns_from_the_rounded_numbers",
        ),
        errors=(
            ("numbers are not rounded", "DenseKind.checked", "self._rounds", "False"),
            ("sparse numbers are not rounded", "SparseKind.checked", "self._rounds", "False"),
            ("numbers become infinite", "precision.rounded", "isfinite(sum(numbers))", "True"),
            ("stored in double precision", "DenseKind.__init__", "NUMBERS[features.precision]", "'<f8'"),
        ),
    ),
    Errors(
        concept="declared features",
        laws=("test_fields_say_what_is_allowed", "test_bad_features_are_refused"),
        errors=(
            (
                "unknown features are allowed",
                "NamedReader._check",
                "path in self._namespaces and (value is None or type(value) is dict)",
                "True",
            ),
            ("required features may be absent", "NamedReader.read", "_check_present(context, path)", "pass"),
            ("a maximum is ignored", "NumberField.wrong_value", "high is None or value <= high", "True"),
        ),
    ),
)
