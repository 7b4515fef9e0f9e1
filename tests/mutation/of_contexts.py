"""Errors in what happens to contexts: kept as sent, hashed always alike, fields checked, plain bodies read."""

from tests.mutation.mutation import Errors

CONTEXTS = (
    Errors(
        concept="preparation",
        laws=(
            "test_the_constant_is_one_more_feature",
            "test_context_and_constant_stay_within_the_bound",
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
            (
                "required features may be absent",
                "NamedReader.read",
                "all(value is None for value in _values_at(context, path))",
                "False",
            ),
            ("a maximum is ignored", "NumberField.wrong_value", "high is None or value <= high", "True"),
        ),
    ),
    Errors(
        concept="plain bodies",
        laws=(
            "test_what_is_read_as_plain_is_valid_with_the_same_values",
            "test_damaged_bodies_are_never_read_differently",
            "test_values_read_together_are_those_of_pydantic",
            "test_requests_that_fit_together_pass_every_check",
            "test_deep_bodies_are_left_to_pydantic",
            "test_numbers_that_msgspec_reads_slowly_are_left_to_pydantic",
            "test_members_that_are_replaced_are_left_to_pydantic",
            "test_many_actions_are_left_to_pydantic",
            "test_an_entry_of_rounds_of_one_length_is_split_like_any_other",
        ),
        errors=(
            ("ids have lines", "plain_bodies._parsed", 'lines.count("\\n") != len(texts) - 1', "False"),
            (
                "names of models are not checked",
                "plain_bodies._read_predictions",
                "_NAME.fullmatch(given.model)",
                "True",
            ),
            (
                "the name of a single model is not checked",
                "_PredictionReader.__call__",
                "_NAME.fullmatch(given.model)",
                "True",
            ),
            ("slow numbers are read", "plain_bodies._decoded", "_LONG_EXPONENT.search(body)", "False"),
            (
                "deep bodies fail",
                "plain_bodies._attempt",
                "(msgspec.MsgspecError, UnicodeDecodeError, RecursionError)",
                "(msgspec.MsgspecError, UnicodeDecodeError)",
            ),
            (
                "features may be given twice",
                "_PredictionReader._read_choice",
                """body.count(b'"features"') != len(given.actions)""",
                "False",
            ),
            ("an id may have anything after it", "plain_bodies._read_one_feedback", "_ID.fullmatch", "_ID.match"),
            ("infinite numbers are accepted", "kind.PlainNumbers", "list[_Finite]", "list[float]"),
            ("empty contexts are accepted", "kind.PlainNumbers", "msgspec.Meta(min_length=1)", '""'),
            (
                "strings are numbers in batches",
                "registry._READER",
                "TypeAdapter(list[GivenContext], config=Body.model_config)",
                "TypeAdapter(list[GivenContext])",
            ),
            ("indices may be huge", "sparse._Plain", "msgspec.Meta(ge=0, lt=2**31)", "msgspec.Meta(ge=0)"),
            ("rewards may be above 1", "plain_bodies._Item", "msgspec.Meta(ge=0, le=1)", "msgspec.Meta(ge=0)"),
            ("contexts of any length fit", "DenseKind.fit_together", "set(map(len, contexts)) == {self._size}", "True"),
            ("contexts beyond the bound fit", "LabelChoice.fit_together", "self._refuses", "False"),
            ("options are not checked", "LabelChoice.fit_together", "each.options is NO_OPTIONS", "True"),
            ("every entry has rounds of one length", "StoredRounds._alike", "alike", "True"),
        ),
    ),
)
