"""Errors in changes of models: labels, modes and holdouts."""

from tests.mutation.mutation import Errors

CHANGES = (
    Errors(
        concept="change",
        home="change_model.lua",
        laws=(
            "test_model_changes::test_a_repeated_change_is_made_once",
            "test_a_change_is_in_the_log_and_in_the_history",
            "test_a_model_that_is_gone_does_not_change",
        ),
        errors=(
            ("another version is changed", "", "if there[5] ~= ARGV[2] then", "if false then"),
            ("a repeated change is refused", "", "there[5] == ARGV[3] and 1 or 0", "0"),
            ("another incarnation is changed", "", "there[1] ~= ARGV[1]", "not there[1]"),
            ("the history forgets", "", "history .. ARGV[5]", "ARGV[5]"),
        ),
    ),
    Errors(
        concept="fold of changes",
        laws=(
            "test_a_snapshot_before_a_change_does_not_contain_it",
            "test_a_log_with_another_change_is_another_log",
            "test_a_frozen_model_records_rounds_and_does_not_learn",
            "test_a_holdout_is_answered_by_its_policy_and_never_learned",
            "test_any_interleaving_gives_every_worker_the_same_state[0-soba-diagonal]",
        ),
        errors=(
            ("a frozen model learns", "learned_spans", "model.definition.mode == 'frozen'", "False"),
            ("the holdout is learned", "learnable", "(rows.table['flags'] & HOLDOUT) != 0", "rows.table['flags'] < 0"),
            (
                "another change is taken for the same",
                "mark_of",
                "return digits_of(entry.payload)",
                "return digits_of(b'')",
            ),
        ),
    ),
    Errors(
        concept="lost changes",
        laws=(
            "test_an_answer_has_a_label_of_the_change_that_is_there[others0]",
            "test_a_lost_label_is_not_eligible",
            "test_a_label_in_the_place_of_a_lost_one_is_a_truth",
            "test_an_imported_round_has_no_label_in_the_place_of_a_lost_one",
        ),
        errors=(
            (
                "another change has the same labels",
                "Predictor._decide_and_store",
                "replica.model is not model",
                "replica.model.change_count != model.change_count",
            ),
            (
                "imports take another change for the same",
                "RoundImporter._predictions",
                "replica.model is not model",
                "replica.model.change_count != model.change_count",
            ),
            (
                "requests are checked again after changes only",
                "Predictor._predict_alike",
                "model is not self._first_model",
                "model.change_count",
            ),
            (
                "a lost label makes others unknown",
                "FeedbackJoiner._parse_all",
                "self._replica.model is not before",
                "self._replica.model.change_count != before.change_count",
            ),
        ),
    ),
    Errors(
        concept="eligible labels",
        laws=(
            "test_labels::test_a_retired_label_is_not_answered",
            "test_one_eligible_label_is_certain",
            "test_a_repeated_request_has_the_same_eligible_labels",
        ),
        errors=(
            (
                "retired labels are eligible",
                "LabelChoice._eligible",
                "np.tile(self.active, (len(requests), 1))",
                "np.ones((len(requests), len(self.active)), np.bool_)",
            ),
            ("all labels are eligible", "LabelChoice._eligible", "eligible[i] = False", "eligible[i] = True"),
            ("the eligible labels are not in the fingerprint", "fingerprint", "request.options == NO_OPTIONS", "True"),
        ),
    ),
    Errors(
        concept="slots",
        laws=(
            "test_the_last_eligible_label_is_certain",
            "test_a_repeated_request_has_the_same_slots",
            "test_a_policy_is_renormalized_on_what_is_left",
        ),
        errors=(
            (
                "a label in two slots",
                "choosing.choose",
                "without(starts, candidates.eligible, slots[-1].draws.labels)",
                "candidates.eligible",
            ),
            ("not renormalized", "conditioned", "mass / np.where(totals > 0.0, totals, 1.0)", "mass"),
            ("the number of slots is not in the fingerprint", "Options.encode", "[self.top]", "[]"),
        ),
    ),
)
