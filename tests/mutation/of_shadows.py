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
            ("it hides where it began", "ShadowReplica._start_anew", "self.shadow.since_rounds + 1", "1"),
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
        concept="lag of a shadow",
        laws=(
            "test_a_promotion_stops_folding_a_shadow_that_begins_again",
            "test_folding_rests_as_long_as_it_works",
            "test_a_change_without_rounds_gets_a_snapshot",
        ),
        errors=(
            ("a promotion folds any lag", "check_lag", "lag > most", "False"),
            ("a promotion never stops", "promoting.within", "replica.round_count < end", "True"),
            ("folding does not rest", "RestingCompute.run", "self._monotonic() - begin", "0.0"),
            ("a change needs another round", "Replica.snapshot", "seen <= stored", "seen[0] <= stored[0]"),
        ),
    ),
    Errors(
        concept="old rounds of a promotion",
        home="forget_old.lua",
        laws=(
            "test_a_promotion_holds_old_rounds_until_a_snapshot_has_it",
            "test_a_promotion_that_is_never_made_holds_nothing",
        ),
        errors=(
            ("they are forgotten", "", "math.min(included, held or included)", "included"),
            ("they stay without a change", "", "> HELD_SECONDS", "> 1e9"),
        ),
    ),
    Errors(
        concept="promotion",
        laws=("test_promotion_under_traffic", "test_rollback_across_a_promotion"),
        errors=(
            ("the evidence of the old learner is used", "Model.has_own_evidence", "self.learner_since", "0"),
            (
                "evidence of another size is damage",
                "Model.choice",
                "LabelChoice(definition, self.learner, self.retired, size, self.learner_since)",
                "LabelChoice(definition, self.learner, self.retired, size, 0)",
            ),
            ("the kept snapshot is not followed", "is_promotion", "model.new_state.then_folds", "False"),
        ),
    ),
)
