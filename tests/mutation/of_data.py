"""Errors in data in and out: rounds imported twice or left out, wrong outcomes, wrong distributions."""

from tests.mutation.mutation import Errors

DATA = (
    Errors(
        concept="imports",
        laws=(
            "test_imports::test_rounds_are_appended_once",
            "test_the_last_sources_are_listed",
            "test_a_damaged_block_appends_nothing",
            "test_each_round_is_imported_once",
            "test_an_import_leaves_out_no_round",
            "test_a_wrong_round_stops_the_whole_request",
            "test_imported_rounds_are_in_the_log_as_given",
        ),
        errors=(
            ("repeated rounds are appended again", "import_rounds.lua:", "if position ~= place or", "if"),
            (
                "the latest sources are forgotten",
                "import_rounds.lua:forget_sources",
                "one[2] > other[2]",
                "one[2] < other[2]",
            ),
            (
                "damaged outcomes are appended",
                "import_rounds.lua:read_whole",
                "if not block or #outcomes ~= block.n * (REWARD_BYTES + block.answer_bytes) then",
                "if not block then",
            ),
            ("every round shares the first reward", "import_rounds.lua:close_all", "at + 1)", "1)"),
            (
                "rounds of a source may be left out",
                "importer._place",
                "position < request.offset + done",
                "False",
            ),
            ("the true label decides nothing", "given_rounds._reward", "float(truth == answer)", "0.0"),
            (
                "holdout rounds are learned",
                "as_logged",
                "np.array([each.holdout for each in rounds])",
                "None",
            ),
        ),
    ),
    Errors(
        concept="files",
        laws=(
            "test_dsjson_is_read",
            "test_tables_are_read",
            "test_a_bad_file_is_refused_with_its_place",
            "test_rows_may_have_line_breaks_and_tabs",
            "test_errors_pass_between_processes",
            "test_actions_have_the_uniform_policy_if_the_log_has_their_number",
        ),
        errors=(
            ("actions are counted from 0", "DsjsonReader._round", "ids[chosen - 1]", "ids[chosen - 2]"),
            ("short rows are accepted", "delimited.read_rows", "len(values) != width", "False"),
            ("tabs separate nothing", "delimited.read_rows", 'suffix_of(path) == ".tsv"', "False"),
            ("copies of errors lose the place", "FileError.__reduce__", "self.place", '""'),
            (
                "the number of actions is not read",
                "ParquetPart._columns",
                '("action_count", "label_count")',
                '("label_count",)',
            ),
            ("a propensity of 0 is accepted", "checked_propensity", "0.0 < number <= 1.0", "0.0 <= number <= 1.0"),
        ),
    ),
    Errors(
        concept="histories",
        laws=(
            "test_a_reader_of_an_older_definition_lists_every_round",
            "test_the_pages_list_every_change_once",
            "test_a_round_names_its_changes",
        ),
        errors=(
            (
                "a line has later changes",
                "round_log._lines",
                "entry.change_count",
                "model.change_count",
            ),
            (
                "a line has the changes before its round",
                "round_log._lines",
                "int(line['changes_seen'])",
                "entry.change_count + 0",
            ),
            (
                "a log is read by an old definition",
                "LogReader._part",
                "tail.change_count > model.change_count",
                "False",
            ),
            ("the last page has a next one", "history_of", "notes and last < count", "notes"),
        ),
    ),
    Errors(
        concept="distributions",
        laws=(
            "test_every_distribution_is_known_after_changes",
            "test_distributions_are_unknown_from_a_rollback_to_a_reset",
            "test_an_update_of_an_unknown_prediction_makes_a_state_unknown",
            "test_dsjson_names_the_labels_that_a_prediction_had",
            "test_an_export_that_follows_the_log_notices_changes",
            "test_predictions_of_a_policy_are_unknown",
            "test_a_promoted_learner_is_known_after_a_reset",
        ),
        errors=(
            ("rounds are folded before an earlier change", "Fold._fold", "later[:1].tolist()", "[]"),
            (
                "predictions are decided by the definition of their round",
                "Distributions._decide",
                "page.seen[i].change_count",
                "int(page.changes[i])",
            ),
            ("a rollback begins anew", "Fold._change", "isinstance(after.new_state, FromSnapshot)", "False"),
            (
                "a reset leaves the state unknown",
                "Fold._change",
                "after.new_state is not None or not self._reason",
                "not self._reason",
            ),
            ("unknown evidence is zero", "Fold._learn", "any(lacks)", "False"),
            (
                "evidence of another learner is used",
                "Fold._learn",
                "model.learner if has_evidence else Recomputing(model.learner)",
                "model.learner",
            ),
            ("every line has all labels", "Export._dsjson", "labels if n is None else labels[:n]", "labels"),
            (
                "changes during the run are not described",
                "_Job._take",
                "lines[-1]['changes'] > self._export.model['changes']['count']",
                "False",
            ),
            (
                "policies of requests are taken for the learner",
                "Distributions._decide",
                "model.definition.mode == 'logging' and (not line['holdout'])",
                "False",
            ),
        ),
    ),
)
