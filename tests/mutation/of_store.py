"""Errors in what is stored: the scripts that join feedback with predictions, the bytes of rounds and states."""

from tests.mutation.mutation import Place, laws

_STORE = ("tests/store/test_contract.py", "tests/store/test_log.py")

STORE = [
    Place(
        "service/store/lua/add_feedback.lua",
        _STORE,
        {
            "feedback: duplicates make rounds": ("if outcome ~= block.nothing then", "if false then"),
            "feedback: conflicts are duplicates": ("if correct ~= first_correct or", "if"),
            "feedback: the window closes a moment early": ("if now > block.expires_at", "if now >= block.expires_at"),
            "feedback: late feedback is taken": ("and not accept_late then", "and false then"),
            "feedback: two entries of one number": ("local number, open = rounds +", "local number, open = first +"),
            "feedback: every round correct": ("block.right + correct", "block.right + 1"),
            "feedback: never forgotten": (", 'KEEPTTL')", ")"),
            "feedback: other truths are duplicates": ("(both_known and truth ~= first_truth)", "false"),
            "feedback: no truth needed": ("truth_needed and truth == ''", "false"),
            "feedback: contradictions are taken": ("correct ~= NOTHING_SAID and correct ~= matches", "false"),
            "feedback: another incarnation's": ("~= ARGV[1] then", "== '' then"),
            "feedback: rounds are not counted": ("'rounds', rounds - first)", "'rounds', 0)"),
            "feedback: its moment is not kept": ("'last_at', ARGV[2])", "'last_at', 0)"),
            "feedback: duplicates expire": (
                "if outcome ~= block.nothing then",
                "if now > block.expires_at then\n    return 'e'\n  end\n  if outcome ~= block.nothing then",
            ),
            "feedback: right answers tell no truth": ("elseif correct == 1 then", "elseif false then"),
            "feedback: every truth is the answer": ("truth == answer and 1 or 0", "1"),
            "feedback: the round without its prediction": ("token .. body", "token"),
        },
    ),
    Place(
        "service/store/lua/add_feedback.lua",
        ("tests/store/test_blocks.py",),
        {
            "block: two rounds of one number": ("rounds + #block.rounds + 1)", "rounds + 1)"),
            "block: closed twice in one call": ("return block.fresh[i] or", "return"),
            "block: any token": (" or token ~= string.sub(block.record, token_at + 1, token_at + 8) then", " then"),
            "block: the bodies stay": ("if open > 0 then", "if true then"),
            "block: the bodies go too early": ("if open > 0 then", "if false then"),
            "block: closed ones are still open": ("redis.call('SETRANGE', key, OPEN_AT, still_open)", ""),
            "block: one outcome for all": ("HEAD_BYTES + from * block.slot, outcomes)", "HEAD_BYTES, outcomes)"),
            "block: truths of any length": ("if #truth ~= block.answer_bytes then", "if false then"),
            "block: any format": ("format ~= FORMAT or ", ""),
            "block: cut short": (" or #record < block.bodies_at then", " then"),
        },
    ),
    Place(
        "service/store/lua/add_feedback.lua",
        laws("tests/store/test_trouble.py", "test_a_broken_record_stops_a_batch_and_spoils_nothing"),
        {
            "feedback: trouble is silence": ("if not done then", "if false then"),
            "feedback: trouble leaves rounds uncounted": ("if rounds > first then", "if done and rounds > first then"),
        },
    ),
    Place(
        "service/store/lua/add_predictions.lua",
        (*_STORE, "tests/store/test_blocks.py"),
        {
            "predict: one round behind is stored": ("if seen == rounds then", "if seen + 1 >= rounds then"),
            "predict: newer rounds of any log": ("(last and (", "(true or ("),
            "predict: newer rounds, allowed or not": ("if ARGV[4] ~= '1' then", "if false then"),
            "predict: as many rounds are the same": ("ARGV[3] == there[3]", "true"),
            "predict: missed rounds are not told": ("if seen >= 0 and not is_of_this_log() then", "if false then"),
            "predict: the last round seen is not told": (
                "local from, upto = ARGV[2]",
                "local from, upto = '(' .. ARGV[2]",
            ),
            "predict: never forgotten": ("'PX', ARGV[6], 'NX'", "'NX'"),
            "predict: heads without their answers": ("HEAD_BYTES + others * (41 + 2 * answer_bytes))", "HEAD_BYTES)"),
            "predict: another incarnation's": ("there[1] ~= ARGV[1]", "not there[1]"),
            "predict: an id in use is overwritten": (", 'NX', 'GET')", ", 'GET')"),
            "predict: repeats are counted": (
                "  if record then\n",
                "  stored = stored + (record and n or 0)\n  if record then\n",
            ),
            "predict: a block is one": ("stored + n\n", "stored + 1\n"),
        },
    ),
    Place(
        "service/store/lua/save_snapshot.lua",
        _STORE,
        {
            "snapshot: an older one is kept": ("there >= rounds", "there < 0"),
            "snapshot: trims all the log": ("- math.max(tonumber(ARGV[5]), 1) + 1", "+ 1"),
            "snapshot: of another log": ("if ARGV[3] == '' then", "if true then"),
            "snapshot: another incarnation's": ("~= ARGV[1] then", "== '' then"),
        },
    ),
    Place(
        "service/store/lua/save_snapshot.lua",
        laws("tests/store/test_trouble.py", "test_a_snapshot_is_whole_or_not_there"),
        {
            "snapshot: some of its parts": ("redis.call('HLEN', KEYS[4]) ~= tonumber(ARGV[4])", "false"),
            "snapshot: forgotten like its parts": ("redis.call('PERSIST', KEYS[3])\n", ""),
        },
    ),
    Place(
        "service/store/lua/read_entries.lua",
        (*_STORE, "tests/store/test_blocks.py"),
        {
            "tail: no limit": ("'XRANGE', log, from, upto)", "'XRANGE', log, from, '+')"),
            "tail: stops short of the limit": ("if last ~= upto then", "if false then"),
        },
    ),
    Place(
        "service/store/lua/read_tail.lua",
        (*_STORE, "tests/store/test_blocks.py"),
        {
            "tail: without its first round": ("local from = ARGV[2]", "local from = '(' .. ARGV[2]"),
            "tail: counted from those that are gone": (
                "math.max(tonumber(ARGV[2]), (",
                "math.min(tonumber(ARGV[2]), (",
            ),
            "tail: another incarnation's": ("there[1] ~= ARGV[1]", "not there[1]"),
        },
    ),
    Place(
        "service/store/lua/create_model.lua",
        _STORE,
        {
            "create: a name given twice": ("if there then", "if false then"),
            "create: any incarnation is the one": ("there == ARGV[1] and 1 or 0", "1"),
        },
    ),
    Place(
        "service/store/lua/delete_model.lua",
        _STORE,
        {
            "delete: another incarnation": ("~= ARGV[1] then", "== '' then"),
            "delete: the log stays": ("KEYS[1], KEYS[2], KEYS[3]", "KEYS[1], KEYS[3]"),
        },
    ),
    Place(
        "service/store/records.py",
        ("tests/store/test_records.py",),
        {
            "record: the propensity of another label": (
                'bodies["propensity"] = made.outputs, made.propensities',
                'bodies["propensity"] = made.outputs, 1.0 - made.propensities',
            ),
            "record: propensities rounded": (
                '("propensity", "<f8"),\n            ("rounds',
                '("propensity", "<f4"),\n            ("rounds',
            ),
            "record: a leftover not kept": (
                'bodies["leftover"], bodies["evidence"] = made.leftovers, made.evidence',
                'bodies["leftover"], bodies["evidence"] = 0.0, made.evidence',
            ),
            "record: any propensity accepted": (
                "((propensities >= 0.0) & (propensities <= 1.0)).all()",
                "True",
            ),
            "record: negative propensities accepted": (
                "((propensities >= 0.0) & (propensities <= 1.0)).all()",
                "(propensities <= 1.0).all()",
            ),
            "record: a label that cannot be drawn": ("(self._output.vanishing or (propensities > 0.0).all())", "True"),
            "record: any label accepted": ('self._output.are_answers(table["output"])', "True"),
            "record: any truth accepted": ('self._output.are_truths(table["truth"])', "True"),
            "record: any leftover accepted": (
                '((table["leftover"] >= 0.0) & (table["leftover"] < 1.0)).all()',
                "True",
            ),
            "record: any evidence accepted": ('np.isfinite(table["evidence"]).all()', "True"),
            "record: any context accepted": ("if not np.isfinite(contexts.values).all():", "if False:"),
            "record: any index accepted": (
                '((entries["index"] < 0) | (entries["index"] >= self._n_features)).any()',
                "False",
            ),
            "record: broken entries accepted": ("len(tail) % _ENTRY.itemsize for", "False for"),
            "record: sparse numbers rounded": ('("value", "<f8")]', '("value", "<f4")]'),
            "record: rounds of any length": ('(table["length"] != size).any()', "False"),
            "record: a rest that is no round": ("if whole != len(data) or", "if"),
            "record: sparse rounds that end behind the end": (" or at + length > len(entry):", ":"),
            "record: sparse rounds that are too short": ("length < self._round.itemsize or", "length < 1 or"),
            "record: one block for all": ("-(-size // BLOCK_BYTES))", "1)"),
            "record: each alone": ("min(contexts.n, -(-size // BLOCK_BYTES))", "contexts.n"),
            "record: bodies counted from the first block": ("at[start:stop] - at[start], at", "at[start:stop], at"),
            "record: a block for one prediction": ("if n != 1 or size", "if size"),
            "record: an answer of another model": ('self._output.are_answers(head["output"])', "True"),
            "record: any format": ("or record[0] != FORMAT:", "or False:"),
            "record: evidence that is shared": ('np.array(table["evidence"], order="C")', 'table["evidence"]'),
            "record: an unknown truth is one": ("None if truth == unknown else truth", "truth"),
        },
    ),
    Place(
        "service/store/outputs.py",
        ("tests/store/test_records.py",),
        {
            "output: one label too many": ("(stored < n_labels)", "(stored <= n_labels)"),
            "output: members below 0": ("((stored == 0) | (stored == 1))", "(stored <= 1)"),
            "output: labels twice in a ranking": (
                "(np.sort(stored, axis=1) == np.arange(n_labels)).all",
                "((stored >= 0) & (stored < n_labels)).all",
            ),
            "output: truths known in part": (".all(axis=tuple(", ".any(axis=tuple("),
        },
    ),
    Place(
        "service/store/confirmation.py",
        ("tests/store/test_confirmation.py",),
        {
            "confirmation: any number of replicas": ("if replicas < self._replicas:", "if replicas < 0:"),
            "confirmation: of nothing": (
                "if not self._replicas:\n            return await",
                "if True:\n            return await",
            ),
        },
    ),
    Place(
        "learners/codec.py",
        laws(
            "tests/learners/test_contract.py",
            "test_state_of_another_learner_is_refused",
            "test_wrong_arrays_are_refused",
        ),
        {
            "state: another learner's": ('if not _is_of(learner, _metadata(data).get("learner")):', "if False:"),
            "state: arrays of any shape": (" or array.shape != layout.shape", ""),
            "state: numbers that are not finite": ("if not np.isfinite(array).all():", "if False:"),
            "state: numbers below their least": ("if (array < layout.least).any():", "if False:"),
            "state: indices out of range": ("if (array > layout.most).any():", "if False:"),
        },
    ),
]
