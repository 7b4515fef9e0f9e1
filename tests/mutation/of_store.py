"""Errors in the store's Lua scripts: feedback joined twice, rounds miscounted, read-your-writes broken."""

from tests.mutation.mutation import Errors

STORE = (
    Errors(
        concept="feedback",
        home="add_feedback.lua",
        laws=(
            "test_feedback_is_recorded_once_and_confirmed_again",
            "test_duplicates_in_one_call_make_one_round",
            "test_the_window_includes_its_last_moment",
            "test_a_deletion_leaves_nothing_but_predictions",
            "test_every_call_for_a_deleted_model_is_refused",
            "test_predictions_that_have_seen_every_round_are_stored",
            "test_rounds_of_one_call_and_block_are_one_entry",
        ),
        errors=(
            ("duplicates make rounds", "judge", "if outcome ~= block.nothing then", "if false then"),
            ("conflicts are duplicates", "compare", "if correct ~= reward or", "if"),
            ("late feedback is accepted", "judge", "and not accept_late then", "and false then"),
            ("two entries with one number", "keep", "local number, open = rounds +", "local number, open = first +"),
            (
                "two rounds with one number",
                "close",
                "local number = rounds + #block.rounds + 1",
                "local number = rounds + 1",
            ),
            ("every round counts as correct", "close", "block.right + correct", "block.right + 1"),
            ("rounds are not counted", "", "'rounds', rounds - first)", "'rounds', 0)"),
            ("another incarnation's model is accepted", "", "~= ARGV[1] then", "== '' then"),
        ),
    ),
    Errors(
        concept="predictions",
        home="add_predictions.lua",
        laws=(
            "test_predictions_from_another_log_get_the_tail",
            "test_every_call_for_a_deleted_model_is_refused",
            "test_a_prediction_is_stored_unless_its_id_is_in_use",
        ),
        errors=(
            (
                "a prediction one round late is stored",
                "is_of_this_log",
                "if seen == rounds then",
                "if seen + 1 >= rounds then",
            ),
            ("missed rounds are not sent", "", "if seen >= 0 and not is_of_this_log() then", "if false then"),
            ("another incarnation's model is accepted", "", "there[1] ~= ARGV[1]", "not there[1]"),
            ("an id in use is overwritten", "", ", 'NX', 'GET')", ", 'GET')"),
        ),
    ),
    Errors(
        concept="snapshot",
        home="save_snapshot.lua",
        laws=(
            "test_only_a_newer_snapshot_is_kept",
            "test_trimming_keeps_the_retained_rounds",
            "test_a_snapshot_of_another_log_is_not_kept",
        ),
        errors=(
            ("an older snapshot is kept", "is_ahead", "there.rounds < rounds", "there.rounds ~= rounds"),
            ("the whole log is trimmed", "", "- math.max(tonumber(ARGV[7]), 1) + 1", "+ 1"),
            ("a snapshot of another log is kept", "is_of_this_log", "if ARGV[5] == '' then", "if true then"),
        ),
    ),
    Errors(
        concept="log",
        laws=(
            "test_predictions_that_miss_rounds_get_the_tail",
            "test_predictions_from_another_log_get_the_tail",
        ),
        errors=(
            (
                "an entry is read twice",
                "read_entries.lua:",
                "start = entries[1] and '(' .. entries",
                "start = entries[1] and '' .. entries",
            ),
            ("the first entry is skipped", "read_tail.lua:", "nearest[1][1], first", "'(' .. nearest[1][1], first"),
        ),
    ),
    Errors(
        concept="model",
        laws=("test_contract::test_a_name_is_given_once", "test_a_deletion_leaves_nothing_but_predictions"),
        errors=(
            ("a name is given twice", "create_model.lua:", "if there then", "if false then"),
            ("the log of a deleted model stays", "delete_model.lua:", "KEYS[1], KEYS[2], KEYS[3]", "KEYS[1], KEYS[3]"),
        ),
    ),
    Errors(
        concept="api key",
        home="replace_api_key.lua",
        laws=("test_the_store_keeps_the_records", "test_a_key_revoked_while_it_is_rotated_stays_revoked"),
        errors=(("rotation restores a revoked key", "", "ARGV[1]) == 0 then", "ARGV[1]) == 2 then"),),
    ),
)
