"""Errors in models with actions: the vectors of candidates, the draw, and what the store keeps."""

from tests.mutation.mutation import Errors

ACTIONS = (
    Errors(
        concept="action vectors",
        laws=(
            "test_the_vector_never_changes",
            "test_compiled_vectors_follow_the_specification",
            "test_a_pair_of_namespaces_restricts_the_products",
            "test_numbers_are_multiplied_without_a_hash",
            "test_equal_objects_share_their_features_and_others_do_not",
        ),
        errors=(
            (
                "factors in the other order",
                "FeatureSets._product",
                "product_hash(first, second)",
                "product_hash(second, first)",
            ),
            ("colliding entries are lost", "FeatureSets._add", "result.values[position] += value", "pass"),
            ("true counts as 1", "_key", "tuple(map(type, values))", "()"),
        ),
    ),
    Errors(
        concept="sources of actions",
        laws=(
            "test_features_with_a_source_are_those_of_the_parsed_action",
            "test_caches_stay_small_and_change_nothing",
            "test_invalid_features_are_never_known",
            "test_what_is_read_as_plain_is_valid_with_the_same_values",
        ),
        errors=(
            ("features are not checked", "SourceReader._is_valid", "_READER.validate_json(source)", "pass"),
            ("the known features grow", "SourceReader._is_valid", "self._bytes > _MOST_BYTES", "False"),
            ("the cache of features grows", "FactorReader._keep", "self._cached > _MOST_CACHED", "False"),
            ("errors do not name the action", "FactorReader.read_action", "_renamed(error, path)", "error"),
            (
                "strings are numbers",
                "sources._READER",
                "TypeAdapter[Any](GivenActionFeatures, config=Body.model_config)",
                "TypeAdapter[Any](GivenActionFeatures)",
            ),
        ),
    ),
    Errors(
        concept="choosing",
        laws=(
            "test_a_repeated_request_returns_the_stored_action",
            "test_workers_agree_and_count_each_round_once",
            "test_answers_are_drawn_with_their_propensities",
            "test_the_log_keeps_all_actions_if_it_shall",
            "test_a_new_item_with_good_features_is_chosen_at_once",
        ),
        errors=(
            (
                "the vector of the first candidate is stored",
                "ActionChoice.stored",
                "candidates.starts[:-1] + chosen",
                "candidates.starts[:-1] + 0 * chosen",
            ),
            ("the first action is logged", "ActionChoice.stored", "left.index(k)", "0"),
            (
                "other actions are a repetition",
                "ActionChoice._encoded",
                "[[each.id, as_sent(each.features)] for each in read.actions]",
                "[]",
            ),
        ),
    ),
)
