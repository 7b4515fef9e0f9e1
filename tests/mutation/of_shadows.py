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
            ("the sums forget a round", "Sums.plus", "self.rounds + len(r)", "self.rounds + len(r) - 1"),
            ("the largest weight is the last one", "Sums.plus", "self.largest_weight", "0.0"),
            ("a lost round is not noticed", "ShadowReplica._load", "there <= self._position", "False"),
            (
                "a shadow that is gone is not noticed",
                "ShadowReplica.snapshot",
                "await self._store.save_shadow(self.model.key, self.shadow, await self.current()) is None",
                "await self._store.save_shadow(self.model.key, self.shadow, await self.current()) == 0",
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
            ("the evidence of the old learner is used", "Model.has_own_evidence", "self.learner_since", "0"),
            ("the kept snapshot is not followed", "is_promotion", "model.new_state.then_folds", "False"),
        ),
    ),
)
