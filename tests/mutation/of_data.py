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
                'values.get("action_count", nothing)',
                "nothing",
            ),
            ("a propensity of 0 is accepted", "checked_propensity", "0.0 < number <= 1.0", "0.0 <= number <= 1.0"),
        ),
    ),
)
