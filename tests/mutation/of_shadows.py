"""Errors in shadows and promotions."""

from tests.mutation.mutation import Errors

SHADOWS = (
    Errors(
        concept="shadow",
        laws=(
            "test_a_shadow_is_a_plain_fold[squarecb]",
            "test_a_shadow_that_lost_rounds_begins_again",
            "test_a_damaged_snapshot_begins_again",
            "test_another_learner_in_its_place_begins_anew",
            "test_sums_do_not_depend_on_parts",
        ),
        errors=(
            ("the sums forget a round", "plus", "rounds=self.rounds + len(r)", "rounds=self.rounds + len(r) - 1"),
            ("the largest weight is the last one", "plus", "max(self.largest_weight, float(", "max(0.0, float("),
            ("a lost round is not noticed", "_load", "there <= self._position", "there < self._position"),
            (
                "a shadow that is gone is not noticed",
                "snapshot",
                "is None:\n            raise",
                "is 0:\n            raise",
            ),
        ),
    ),
    Errors(
        concept="rounds of shadows",
        home="save_snapshot.lua",
        laws=(
            "test_trimming_keeps_the_rounds_that_a_shadow_needs",
            "test_a_promotion_survives_trimming_before_its_change",
        ),
        errors=(
            (
                "trimming ignores shadows",
                "",
                "first = math.min(first, math.max(folded",
                "first = math.max(first, math.max(folded",
            ),
            ("a promotion holds nothing", "", "if promoted and changes >= promoted then", "if promoted then"),
        ),
    ),
    Errors(
        concept="promotion",
        laws=("test_promotion_under_traffic[squarecb]", "test_rollback_across_a_promotion"),
        errors=(
            ("the evidence of the old learner is used", "has_own_evidence", ">= self.learner_since", ">= 0"),
            ("the kept snapshot is not followed", "is_promotion", "and model.new_state.then_folds", "and False"),
        ),
    ),
)
