"""Errors in what is stored: the scripts that join feedback with predictions, the bytes of rounds and states."""

from tests.mutation.mutation import Place, laws

_STORE = ("tests/service/store/test_contract.py", "tests/service/store/test_log.py")

_UNREADABLE = ("tests/service/models/test_unreadable_models.py",)

STORE = [
    Place(
        "service/store/redis/redis_store.py",
        _UNREADABLE,
        {"list: one model fails all": ("            return UnreadModel(name, error)", "            raise error")},
    ),
    Place(
        "service/store/connections/readiness.py",
        laws("tests/service/store/test_trouble.py", "test_a_store_is_ready_when_it_takes_writes"),
        {"readiness: nothing is written": ("    for server in servers:\n", "    for server in servers[:0]:\n")},
    ),
    Place(
        "service/api/resources/health.py",
        laws("tests/service/operations/test_store_down.py", "test_whoever_asks_for_readiness_shares_a_write"),
        {"readiness: everyone writes": ("if self._asked is None or", "if True or")},
    ),
    Place(
        "service/store/redis/model_hash.py",
        _UNREADABLE,
        {
            "list: any number will do": ("not value.isdigit()", "False"),
            "list: created at any time": ("if not 0.0 <= seconds <= _LATEST:", "if False:"),
        },
    ),
    Place(
        "service/models/model_summary.py",
        _UNREADABLE,
        {
            "list: a summary of another definition": ("and summary.definition_bytes == definition_bytes", ""),
        },
    ),
    Place(
        "service/store/lua/keep_summary.lua",
        _UNREADABLE,
        {"list: a summary of another life": ("~= ARGV[1] then", "== nil then")},
    ),
    Place(
        "service/store/lua/delete_model.lua",
        _UNREADABLE,
        {"list: what is damaged cannot be deleted": ("if ARGV[1] == '' and", "if false and")},
    ),
    Place(
        "service/rounds/session_cache.py",
        laws("tests/service/rounds/test_sessions.py", "test_a_desk_is_counted_as_what_it_holds"),
        {"desks: labels cost nothing": ("desk.replica.bytes + strings + desk", "desk.replica.bytes + 0 * desk")},
    ),
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
            "feedback: every truth is the answer": ("local matches = truth == answer and 1 or 0", "local matches = 1"),
            "feedback: the round without its prediction": ("token .. body", "token"),
        },
    ),
    Place(
        "service/store/lua/add_feedback.lua",
        ("tests/service/store/test_blocks.py",),
        {
            "block: two rounds of one number": ("rounds + #block.rounds + 1)", "rounds + 1)"),
            "block: closed twice in one call": ("return block.fresh[i] or", "return"),
            "block: any token": (" or token ~= string.sub(block.record, token_at + 1, token_at + 8) then", " then"),
            "block: the bodies stay": ("if open > 0 then", "if true then"),
            "block: the bodies go too early": ("if open > 0 then", "if false then"),
            "block: closed ones are still open": ("redis.call('SETRANGE', key, OPEN_AT, still_open)", ""),
            "block: one outcome for all": ("HEAD_BYTES + from * block.slot, outcomes)", "HEAD_BYTES, outcomes)"),
            "block: truths of any length": ("if #truth ~= block.answer_bytes then", "if false then"),
            "block: any format": ("if format ~= FORMAT then", "if false then"),
            "block: cut short": (" or #record < block.bodies_at then", " then"),
        },
    ),
    Place(
        "service/store/lua/add_feedback.lua",
        laws("tests/service/store/test_trouble.py", "test_a_call_that_is_stopped_spoils_nothing"),
        {
            "feedback: trouble is silence": ("if not done then", "if false then"),
            "feedback: trouble leaves rounds uncounted": ("if rounds > first then", "if done and rounds > first then"),
        },
    ),
    Place(
        "service/store/lua/add_predictions.lua",
        (*_STORE, "tests/service/store/test_blocks.py"),
        {
            "predict: one round behind is stored": ("if seen == rounds then", "if seen + 1 >= rounds then"),
            "predict: newer rounds of any log": ("(last and (", "(true or ("),
            "predict: newer rounds, allowed or not": ("return ARGV[4] == '1' and is_in_log()", "return is_in_log()"),
            "predict: as many rounds are the same": ("struct.pack('<d', last_at) == ARGV[3]", "true"),
            "predict: missed rounds are not told": ("if seen >= 0 and not is_of_this_log() then", "if false then"),
            "predict: the last round seen is not told": (
                "local from, upto = ARGV[2]",
                "local from, upto = '(' .. ARGV[2]",
            ),
            "predict: never forgotten": ("'PX', ARGV[7], 'NX'", "'NX'"),
            "predict: heads without their answers": ("HEAD_BYTES + others * (41 + 2 * answer_bytes))", "HEAD_BYTES)"),
            "predict: another incarnation's": ("there[1] ~= ARGV[1]", "not there[1]"),
            "predict: an id in use is overwritten": (", 'NX', 'GET')", ", 'GET')"),
            "predict: repeats are counted": (
                "  if not record then\n",
                "  stored = stored + (record and n or 0)\n  if not record then\n",
            ),
            "predict: a block is one": ("stored + n\n", "stored + 1\n"),
        },
    ),
    Place(
        "service/store/lua/save_snapshot.lua",
        _STORE,
        {
            "snapshot: an older one is kept": ("there.rounds < rounds or", "there.rounds >= 0 or"),
            "snapshot: trims all the log": ("- math.max(tonumber(ARGV[7]), 1) + 1", "+ 1"),
            "snapshot: of another log": ("if ARGV[5] == '' then", "if true then"),
            "snapshot: another incarnation's": ("~= ARGV[1] then", "== '' then"),
        },
    ),
    Place(
        "service/store/lua/save_snapshot.lua",
        ("tests/service/store/test_snapshots.py",),
        {
            "snapshot: an older version's": ("there.version <= version\n", "true\n"),
            "snapshot: changes are not counted": ("there.changes < changes", "false"),
            "snapshot: another last entry": ("ARGV[3] .. '-' .. ARGV[4]", "ARGV[3] .. '-0'"),
        },
    ),
    Place(
        "service/store/lua/publish_statistics.lua",
        ("tests/service/store/test_snapshots.py",),
        {"statistics: an older version's": (" and tonumber(there[2] or '1') <= tonumber(ARGV[6])", "")},
    ),
    Place(
        "service/store/redis/snapshot_parts.py",
        ("tests/service/store/test_snapshots.py",),
        {
            "snapshot: not checked": ("if has_check and", "if False and"),
            "snapshot: the check of no numbers": ("repr(numbers).encode() + ", ""),
            "snapshot: without its version it is an old one": (' or b"check" in fields', ""),
            "snapshot: any version": ("if version > SNAPSHOT_VERSION or unknown:", "if unknown:"),
        },
    ),
    Place(
        "service/store/lua/save_snapshot.lua",
        laws("tests/service/store/test_trouble.py", "test_a_snapshot_is_whole_or_not_there"),
        {
            "snapshot: some of its parts": ("redis.call('HLEN', KEYS[4]) ~= tonumber(ARGV[6])", "false"),
            "snapshot: forgotten like its parts": ("redis.call('PERSIST', KEYS[3])\n", ""),
        },
    ),
    Place(
        "service/store/lua/read_entries.lua",
        (*_STORE, "tests/service/store/test_blocks.py"),
        {
            "tail: no limit": ("log, start, upto, 'COUNT', count)", "log, start, '+', 'COUNT', count)"),
            "tail: stops short of the limit": (
                "if not entries[1] or entries[#entries][1] ~= upto then",
                "if false then",
            ),
            "tail: any number of bytes": ("while bytes < MOST_BYTES do", "while true do"),
            "tail: a page twice": ("start = entries[1] and '(' .. entries", "start = entries[1] and '' .. entries"),
        },
    ),
    Place(
        "service/store/lua/read_tail.lua",
        (*_STORE, "tests/service/store/test_blocks.py"),
        {
            "tail: without its first round": ("local from = ARGV[2]", "local from = '(' .. ARGV[2]"),
            "tail: counted from those that are gone": (
                "math.max(tonumber(ARGV[2]), math",
                "math.min(tonumber(ARGV[2]), math",
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
        "service/store/records/records.py",
        ("tests/service/store/test_records.py",),
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
            "record: any truth accepted": ('form.possible_truths(table["truth"])', 'table["correct"] <= 1'),
            "record: any bit accepted": (
                '(right == form.equal(table["truth"], table["output"])) & (right <= 1)',
                "right >= 0",
            ),
            "record: any format": ("or record[0] < FORMAT:", "or False:"),
            "record: newer formats": ("if record[0] > FORMAT:", "if False:"),
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
            "record: evidence that is shared": ('np.array(table["evidence"], order="C")', 'table["evidence"]'),
        },
    ),
    Place(
        "service/store/records/soundness.py",
        ("tests/service/store/test_records.py",),
        {
            "sound: any propensity": ("& (p <= 1.0)", "& (p < 9.0)"),
            "sound: negative propensities": ("(p >= (0.0 if form.vanishing else _LEAST))", "(p > -1.0)"),
            "sound: a label that cannot be drawn": ("(0.0 if form.vanishing else _LEAST)", "0.0"),
            "sound: any label": ('yield "output", form.possible(outputs)', 'yield "output", p <= 1.0'),
            "sound: any leftover": ("& (leftovers < 1.0)", ""),
            "sound: any context": ("    if not finite.all():", "    if False:"),
        },
    ),
    Place(
        "service/store/outcomes.py",
        ("tests/service/store/test_records.py",),
        {"record: an unknown truth is one": ("None if truth == unknown else truth", "truth")},
    ),
    Place(
        "service/store/lua/add_feedback.lua",
        ("tests/service/store/test_damaged_records.py",),
        {
            "damage: lengths are not compared": ("answer_bytes == ANSWER_BYTES and ", ""),
            "damage: bodies of any place": ("from ~= before or upto ~= after or ", ""),
            "damage: any propensity": ("and p <= 1 and (p > 0 or (p == 0 and KIND ~= 'label'))", ""),
            "damage: head and body differ": ("p == struct.unpack('<d', record, head_at + 1)\n    and ", ""),
            "damage: any leftover": ("and leftover >= 0 and leftover < 1", ""),
            "damage: any number": ("string.byte(bytes, at - 1) >= 240", "false"),
            "damage: numbers out of step": ("at + (ahead == 0 and stride or ahead)", "at + stride"),
            "damage: any index": ("if struct.unpack('<I4', body, at) >= FEATURES then", "if false then"),
            "damage: any outcome": ("elseif not is_outcome(block, outcome, answer) then", "elseif false then"),
            "damage: open ones are counted down": ("if open <= 0 then --", "if false then --"),
        },
    ),
    Place(
        "service/store/lua/record_damage.lua",
        ("tests/service/replicas/test_damage.py",),
        {
            "damage: recorded behind a snapshot": ("if tonumber(ARGV[i]) <= seen then", "if false then"),
            "damage: nobody hears of it": ("redis.call('HINCRBY', KEYS[1], 'damage', 1)", "1"),
        },
    ),
    Place(
        "service/store/lua/save_snapshot.lua",
        laws("tests/service/replicas/test_damage.py", "test_damage_to_what_others_have_learned_reaches_them"),
        {"snapshot: of rounds that others leave out": ("or not heeded or", "or")},
    ),
    Place(
        "service/store/records/answer_codec.py",
        ("tests/service/store/test_records.py",),
        {
            "output: one label too many": ("(stored < n_labels)", "(stored <= n_labels)"),
            "output: members below 0": ("((stored == 0) | (stored == 1))", "(stored <= 1)"),
            "output: labels twice in a ranking": (
                "(np.sort(stored, axis=1) == np.arange(n_labels)).all",
                "((stored >= 0) & (stored < n_labels)).all",
            ),
            "output: truths known in part": ("(stored == NO_LABEL).all(axis=", "(stored == NO_LABEL).any(axis="),
        },
    ),
    Place(
        "service/store/connections/replication.py",
        ("tests/service/store/test_replication.py",),
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
