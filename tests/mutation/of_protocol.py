"""Errors in the protocol between workers and the store. A simulation of a minute must find each of them."""

from tests.mutation.mutation import Errors

_LAWS = ("test_simulated_runs_break_no_promise",)

PROTOCOL = (
    Errors(
        concept="protocol, feedback",
        laws=_LAWS,
        errors=(
            (
                "no duplicate check",
                "add_feedback.lua:judge",
                "if not fresh then if kind_of",
                "if false then if kind_of",
            ),
            ("no conflict check", "add_feedback.lua:compare", "if reward ~= first_reward or", "if"),
            ("no incarnation check", "blocks.lua:open_log", "~= incarnation then", "== '' then"),
            (
                "two entries with one number",
                "blocks.lua:append_rounds",
                "+ #block.rounds",
                "- log.rounds + log.first + #block.rounds",
            ),
            (
                "two rounds with one number",
                "blocks.lua:close",
                "at, log.rounds + place, truth)",
                "at, log.rounds + 1, truth)",
            ),
            ("rounds are not counted", "blocks.lua:count_rounds", "'rounds', log.rounds - log.first)", "'rounds', 0)"),
            ("every round counts as correct", "blocks.lua:close", "(reward == 1 and 1 or 0)", "1"),
            ("closed blocks lose their time to live", "blocks.lua:keep", ", 'KEEPTTL')", ")"),
            (
                "inactive predictions take feedback",
                "add_feedback.lua:refusal",
                "if outcome == block.inactive then return 'a'",
                "if false then return 'a'",
            ),
            ("rounds lack what their prediction saw", "blocks.lua:body_of", ".. block.seen ..", ".."),
        ),
    ),
    Errors(
        concept="protocol, predictions",
        laws=_LAWS,
        errors=(
            (
                "no check of the number of rounds",
                "add_predictions_late.lua:is_of_this_log",
                "if seen == rounds then",
                "if seen + 1 >= rounds then",
            ),
            (
                "no check of the log at all",
                "add_predictions_late.lua:",
                "seen >= 0 and not is_of_this_log() then",
                "false then",
            ),
            (
                "no change counter",
                "add_predictions_late.lua:is_of_this_log",
                "or changes_seen ~= changes or there[8] ~= ARGV[10] then",
                "then",
            ),
            ("no incarnation check", "add_predictions.lua:", "there[1] ~= ARGV[1]", "not there[1]"),
            ("an id in use is overwritten", "add_predictions.lua:", ", 'NX', 'GET')", ", 'GET')"),
            (
                "predictions have no deadline",
                "add_predictions.lua:add_all",
                "if there[6] then note_deadline",
                "if false then note_deadline",
            ),
        ),
    ),
    Errors(
        concept="protocol, closing",
        laws=_LAWS,
        errors=(
            ("waiting feedback is lost", "close_expired.lua:close_one", "elseif waits then", "elseif false then"),
            ("feedback does not wait", "add_feedback.lua:judge", "if log.waits then", "if false then"),
            (
                "inactive predictions become rounds",
                "close_expired.lua:close_one",
                "log.reward and outcome == block.nothing then",
                "log.reward then",
            ),
        ),
    ),
    Errors(
        concept="protocol, snapshots",
        home="save_snapshot.lua",
        laws=_LAWS,
        errors=(
            ("no parts count", "", "or redis.call('HLEN', KEYS[4]) ~= tonumber(ARGV[6])", ""),
            ("an older snapshot is kept", "is_ahead", "there.rounds < rounds", "there.rounds ~= rounds"),
            (
                "the log is trimmed after the snapshot",
                "",
                "string.format('%.0f-0', first)",
                "string.format('%.0f-0', rounds + 2)",
            ),
            ("snapshots expire", "", "redis.call('PERSIST', KEYS[3])", "redis.call('EXPIRE', KEYS[3], 5)"),
        ),
    ),
    Errors(
        concept="protocol, changes",
        laws=_LAWS,
        errors=(("the log of a deleted model stays", "delete_model.lua:", "unpack(KEYS)", "KEYS[1], KEYS[3]"),),
    ),
    Errors(
        concept="protocol, workers",
        laws=_LAWS,
        errors=(
            (
                "a lost end of the log is not noticed",
                "LogFold._contradicts",
                "there is not None and there != self._last_at",
                "False",
            ),
            (
                "a late state counts as new",
                "Replica.is_newer_than",
                "self._monotonic() - self._complete_at < seconds",
                "True",
            ),
            (
                "a catch-up counts from its end",
                "Replica.catch_up_locked",
                "self._complete_at = begun_at",
                "self._complete_at = self._monotonic() + 0.3",
            ),
            (
                "predictions of a changed model are stored",
                "Predictor._decide_and_store",
                "replica.model is not model",
                "False",
            ),
            (
                "a gap in the log is not noticed",
                "tails.has_gap",
                "begin_of(form, entries[0], after) != seen.round_count + 1",
                "False",
            ),
            ("unconfirmed writes are acknowledged", "Confirmed._call_and_wait", "replicas < self._replicas", "False"),
            (
                "trimmed rounds are not in the snapshot",
                "forget_old.lua:",
                "round_count(entry) >= needed then",
                "false then",
            ),
        ),
    ),
)
