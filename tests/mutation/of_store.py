"""Errors in what is stored: the scripts that join feedback with predictions, the bytes of rounds and states."""

from tests.mutation.mutation import Place, laws

_STORE = ("tests/store/test_contract.py",)

STORE = [
    Place(
        "service/store/lua/add_feedback.lua",
        _STORE,
        {
            "feedback: duplicates make rounds": ("if closed == 1 then", "if false then"),
            "feedback: conflicts are duplicates": ("if correct ~= first_correct or", "if"),
            "feedback: the prediction stays open": ("'\\1' .. string.sub", "'\\0' .. string.sub"),
            "feedback: the window closes a moment early": ("if now > expires_at", "if now >= expires_at"),
            "feedback: late feedback is taken": ("and not accept_late then", "and false then"),
            "feedback: two rounds of one number": ("local number = rounds + 1", "local number = first + 1"),
            "feedback: every round correct": ("right + correct", "right + 1"),
            "feedback: never forgotten": (", 'KEEPTTL')", ")"),
            "feedback: other truths are duplicates": ("(both_known and truth ~= first_truth)", "false"),
            "feedback: no truth needed": ("truth_needed and truth == ''", "false"),
            "feedback: contradictions are taken": ("correct and correct ~= matches", "false"),
            "feedback: another incarnation's": ("~= ARGV[1] then", "== '' then"),
            "feedback: rounds are not counted": ("'rounds', rounds - first)", "'rounds', 0)"),
            "feedback: its moment is not kept": ("'last_at', ARGV[2])", "'last_at', 0)"),
            "feedback: duplicates expire": (
                "if closed == 1 then",
                "if now > expires_at and not accept_late then\n    return {'expired'}\n  end\n  if closed == 1 then",
            ),
            "feedback: right answers tell no truth": ("elseif correct == 1 then", "elseif false then"),
            "feedback: every truth is the answer": ("truth == answer and 1 or 0", "1"),
            "feedback: the round without its prediction": (".. string.sub(record, head_bytes + 1)", ".. ''"),
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
        _STORE,
        {
            "predict: one round behind is stored": ("tonumber(there[2]) == seen", "tonumber(there[2]) <= seen + 1"),
            "predict: as many rounds are the same": ("ARGV[3] == there[3]", "true"),
            "predict: missed rounds are not told": ("if seen >= 0 and not same then", "if false then"),
            "predict: the last round seen is not told": ("KEYS[2], ARGV[2] .. '-0'", "KEYS[2], '(' .. ARGV[2] .. '-0'"),
            "predict: never forgotten": ("'PX', ARGV[5], 'NX'", "'NX'"),
            "predict: heads without their answers": (
                "HEAD_BYTES + struct.unpack('<I4', record, 3))",
                "HEAD_BYTES)",
            ),
            "predict: another incarnation's": ("there[1] ~= ARGV[1]", "not there[1]"),
            "predict: an id in use is overwritten": (", 'NX', 'GET')", ", 'GET')"),
            "predict: repeats are counted": ("(record and 0 or 1)", "1"),
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
        "service/store/lua/read_tail.lua",
        _STORE,
        {
            "tail: the round before it too": ("'(' .. ARGV[2] .. '-0'", "ARGV[2] .. '-0'"),
            "tail: no limit": (", 'COUNT', ARGV[3])", ")"),
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
                'bodies["propensity"] = [head.propensity for head in heads]',
                'bodies["propensity"] = [1.0 - head.propensity for head in heads]',
            ),
            "record: propensities rounded": ('("propensity", "<f8")', '("propensity", "<f4")'),
            "record: a leftover not kept": (
                'bodies["leftover"] = now, evidence, leftovers',
                'bodies["leftover"] = now, evidence, 0.0',
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
            "record: contexts of any length": ("len(tail) != self._n_features * 8 for", "False for"),
            "record: any format": ("or record[0] != FORMAT:", "or False:"),
            "record: evidence that is shared": ('np.array(table["evidence"], order="C")', 'table["evidence"]'),
            "record: an unknown truth is one": ('None if truth == b"\\xff" * len(truth) else truth', "truth"),
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
        "learners/codec.py",
        laws(
            "tests/learners/test_contract.py",
            "test_state_of_another_learner_is_refused",
            "test_wrong_arrays_are_refused",
        ),
        {
            "state: another learner's": ('if _metadata(data).get("learner") != identity(learner):', "if False:"),
            "state: arrays of any shape": (" or array.shape != layout.shape", ""),
            "state: numbers that are not finite": ("if not np.isfinite(array).all():", "if False:"),
            "state: numbers below their least": ("if (array < layout.least).any():", "if False:"),
            "state: indices out of range": ("if (array > layout.most).any():", "if False:"),
        },
    ),
]
