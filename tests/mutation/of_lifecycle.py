"""Errors in kept snapshots, rollback, and copies of models."""

from tests.mutation.mutation import Errors

LIFECYCLE = (
    Errors(
        concept="kept snapshot",
        home="keep_snapshot.lua",
        laws=(
            "test_a_kept_snapshot_is_read_as_it_was_kept",
            "test_only_snapshots_of_this_log_are_kept",
            "test_a_model_keeps_a_limited_number",
        ),
        errors=(
            ("a second snapshot replaces the first", "", "redis.call('HEXISTS', KEYS[3], ARGV[10]) == 1", "false"),
            ("there is no limit", "", "redis.call('HLEN', KEYS[3]) >= tonumber(ARGV[12])", "false"),
            ("another log's snapshot is kept", "", "return last and mark_of(last) == ARGV[5]", "return true"),
            ("recorded damage is ignored", "", "(model[2] or '0') ~= ARGV[8]", "false"),
        ),
    ),
    Errors(
        concept="deletion of a kept snapshot",
        home="drop_kept.lua",
        laws=("test_a_snapshot_that_the_log_needs_stays",),
        errors=(
            ("a change that begins the log does not count", "", "made = made - 1", "made = made - 0"),
            ("a needed snapshot is dropped", "", "tonumber(ARGV[4]) > made", "false"),
            ("a later change is missed", "", "there[2] ~= ARGV[3]", "false"),
        ),
    ),
    Errors(
        concept="repeated change",
        laws=(
            "test_a_call_overtaken_by_the_same_change_has_its_result",
            "test_a_late_repetition_spares_a_new_shadow",
        ),
        errors=(
            ("the call that comes second is not tried again", "make_change", "range(_ATTEMPTS)", "range(1)"),
            (
                "a late promotion removes any shadow",
                "Promoting._end",
                "read_definition(shadow).at <= promoted_at",
                "True",
            ),
        ),
    ),
    Errors(
        concept="new state",
        laws=("test_a_model_continues_from_the_state", "test_other_workers_fold_the_copy"),
        errors=(
            ("a rollback changes nothing", "keeps_state", "after.new_state is None", "True"),
            ("a reset keeps what was learnt", "continued", "after.learner.init()", "state"),
        ),
    ),
    Errors(
        concept="copy",
        laws=("test_a_hostile_file_is_refused",),
        errors=(
            ("statistics may have more rounds", "checked_statistics", "statistics.rounds > rounds", "False"),
            ("an imported model has no limits", "_imported", "check_limits(model.learner, limits)", "None"),
        ),
    ),
    Errors(
        concept="copied imports",
        laws=("test_a_copy_imports_no_round_again", "test_positions_of_imports_belong_to_the_state"),
        errors=(
            ("a copy begins its imports again", "_copy_of", "source.imports", "()"),
            (
                "positions of another state",
                "Copying._source",
                "_positions(before) == _positions(imports)",
                "True",
            ),
        ),
    ),
    Errors(
        concept="foreign state",
        laws=("test_huge_numbers_are_refused",),
        errors=(
            (
                "numbers have no bound",
                "foreign_state",
                "max(array.max(initial=0.0), -array.min(initial=0.0)) > _LARGEST",
                "False",
            ),
        ),
    ),
    Errors(
        concept="restore",
        laws=("test_a_key_for_some_names_restores_those",),
        errors=(("a name that the key does not allow ends it", "_restored", "error.type in _LEAVES", "False"),),
    ),
)
