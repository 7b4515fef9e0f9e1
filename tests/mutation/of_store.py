"""Errors in the store's Lua scripts: feedback joined twice, rounds miscounted, read-your-writes broken."""

from tests.mutation.mutation import Errors

STORE = (
    Errors(
        concept="feedback",
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
            (
                "duplicates make rounds",
                "add_feedback.lua:judge",
                "if not fresh then if kind_of",
                "if false then if kind_of",
            ),
            ("conflicts are duplicates", "add_feedback.lua:compare", "if reward ~= first_reward or", "if"),
            ("late feedback is accepted", "add_feedback.lua:refusal", "and (not accept_late or", "and (false or"),
            (
                "two entries with one number",
                "blocks.lua:append_rounds",
                "log.rounds + #block.rounds",
                "log.first + #block.rounds",
            ),
            (
                "two rounds with one number",
                "blocks.lua:close",
                "at, log.rounds + place, truth)",
                "at, log.rounds + 1, truth)",
            ),
            ("every round counts as correct", "blocks.lua:close", "(reward == 1 and 1 or 0)", "1"),
            ("rounds are not counted", "blocks.lua:count_rounds", "'rounds', log.rounds - log.first)", "'rounds', 0)"),
            ("another incarnation's model is accepted", "blocks.lua:open_log", "~= incarnation then", "== '' then"),
        ),
    ),
    Errors(
        concept="stored records",
        laws=("test_records_of_extreme_sizes_survive", "test_no_damaged_byte_of_a_block_makes_a_round"),
        errors=(
            ("the check of a body is not verified", "blocks.lua:body_of", "and check_of(whole) == check", ""),
            ("the first body begins later", "blocks.lua:body_of", "i == 0 and 0 or", "i == 1 and 0 or"),
            ("rounds without what their predictions saw", "blocks.lua:body_of", ".. block.seen ..", ".."),
            ("damaged heads are read", "blocks.lua:parse_block", "~= read(CHECK", "== 1 - read(CHECK"),
            (
                "sizes of parts are not read",
                "StoredRounds._sizes",
                "others[given] = np.frombuffer(packed, '<u4').reshape(-1, 3)",
                "",
            ),
        ),
    ),
    Errors(
        concept="closing",
        laws=(
            "test_an_expired_prediction_becomes_one_round",
            "test_a_deadline_that_is_too_early_closes_nothing",
            "test_feedback_waits_for_the_end_of_the_window",
            "test_an_inactive_prediction_expires_without_a_round",
            "test_a_model_is_due_when_it_is_new_and_when_a_prediction_expires",
            "test_a_claimed_model_is_left_to_one_worker_for_a_while",
            "test_a_broken_block_does_not_block_the_others",
        ),
        errors=(
            ("open windows are closed", "close_expired.lua:close_all", "now <= block.expires_at", "false"),
            ("feedback that waits is lost", "close_expired.lua:close_one", "elseif waits then", "elseif false then"),
            ("feedback does not wait", "add_feedback.lua:judge", "if log.waits then", "if false then"),
            (
                "inactive predictions become rounds",
                "close_expired.lua:close_one",
                "log.reward and outcome == block.nothing then",
                "log.reward then",
            ),
            ("a model is visited too late", "close_expired.lua:", "now + log.window or", "now + 2 * log.window or"),
            ("a damaged block stays due", "close_expired.lua:close_all", "redis.call('ZREM', KEYS[3], id)", ""),
            ("two workers close one model", "claim_due.lua:", "now + ARGV[3]", "now - ARGV[3]"),
            (
                "predictions have no deadline",
                "add_predictions.lua:add_all",
                "if there[6] then note_deadline",
                "if false then note_deadline",
            ),
        ),
    ),
    Errors(
        concept="predictions",
        laws=(
            "test_predictions_from_another_log_get_the_tail",
            "test_every_call_for_a_deleted_model_is_refused",
            "test_a_prediction_is_stored_unless_its_id_is_in_use",
        ),
        errors=(
            (
                "a prediction one round late is stored",
                "add_predictions_late.lua:is_of_this_log",
                "if seen == rounds then",
                "if seen + 1 >= rounds then",
            ),
            (
                "missed rounds are not sent",
                "add_predictions_late.lua:",
                "seen >= 0 and not is_of_this_log() then",
                "false then",
            ),
            ("another incarnation's model is accepted", "add_predictions.lua:", "there[1] ~= ARGV[1]", "not there[1]"),
            ("an id in use is overwritten", "add_predictions.lua:", ", 'NX', 'GET')", ", 'GET')"),
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
            ("the log of a deleted model stays", "delete_model.lua:", "unpack(KEYS)", "KEYS[1], KEYS[3]"),
        ),
    ),
    Errors(
        concept="api key",
        home="replace_api_key.lua",
        laws=("test_the_store_keeps_the_records", "test_a_key_revoked_while_it_is_rotated_stays_revoked"),
        errors=(("rotation restores a revoked key", "", "ARGV[1]) == 0 then", "ARGV[1]) == 2 then"),),
    ),
)
