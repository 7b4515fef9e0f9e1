"""Errors in the service's promises: exactly once, read your writes, true propensities, the same state everywhere."""

from tests.mutation.mutation import Place

_STORE = ("tests/store/test_contract.py",)
_ONCE = "tests/service/test_exactly_once.py"
_PROPENSITIES = (
    "tests/service/test_propensities.py::test_the_log_has_the_propensity_that_was_answered",
    "tests/service/test_propensities.py::test_draws_do_not_follow_each_other",
)
_REPLICA = ("tests/service/test_replica.py",)

SERVICE = [
    Place(
        "service/store/lua/add_feedback.lua",
        _STORE,
        {
            "feedback: duplicates make rounds": ("if closed == 1 then", "if false then"),
            "feedback: conflicts are duplicates": ("if correct ~= first_correct or", "if"),
            "feedback: the prediction stays open": ("'\\1' .. string.sub", "'\\0' .. string.sub"),
            "feedback: the window closes a moment early": ("if now > expires_at", "if now >= expires_at"),
            "feedback: late feedback is taken": ("and not accept_late then", "and false then"),
            "feedback: two rounds of one number": ("HINCRBY', KEYS[1], 'rounds', 1", "HINCRBY', KEYS[1], 'rounds', 2"),
            "feedback: every round correct": ("'correct', correct)", "'correct', 1)"),
            "feedback: never forgotten": (", 'KEEPTTL')", ")"),
            "feedback: other truths are duplicates": ("(both_known and truth ~= first_truth)", "false"),
            "feedback: no truth needed": ("truth_needed and truth == ''", "false"),
            "feedback: contradictions are taken": ("correct and correct ~= matches", "false"),
            "feedback: another incarnation's": ("~= ARGV[1] then", "== '' then"),
        },
    ),
    Place(
        "service/store/lua/add_predictions.lua",
        _STORE,
        {
            "predict: one round behind is stored": ("tonumber(there[2]) > seen", "tonumber(there[2]) > seen + 1"),
            "predict: an id in use is overwritten": (", 'NX', 'GET')", ", 'GET')"),
            "predict: repeats are counted": ("(record and 0 or 1)", "1"),
        },
    ),
    Place(
        "service/store/lua/save_snapshot.lua",
        _STORE,
        {
            "snapshot: an older one is kept": ("there >= rounds", "there < 0"),
            "snapshot: trims all the log": ("- tonumber(ARGV[4]) + 1", "+ 1"),
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
        },
    ),
    Place(
        "service/desk.py",
        _PROPENSITIES,
        {
            "desk: the leader's propensity": (
                "propensities.tolist(), strict=True",
                "distributions.max(axis=1).tolist(), strict=True",
            ),
        },
    ),
    Place(
        "service/desk.py",
        (_ONCE, "tests/service/test_http.py"),
        {
            "desk: never told of missed rounds": ("drawn, replica.seen)", "drawn, None)"),
            "desk: another context is a repeat": ("if stored.fingerprint != head.fingerprint:", "if False:"),
        },
    ),
    Place(
        "service/replica.py",
        _REPLICA,
        {
            "replica: folds twice": (
                "        self.rounds = entries[-1].number",
                "        self.state = learner.fold(self.state, rounds)\n        self.rounds = entries[-1].number",
            ),
            "replica: a fold cut short is used": ("self.state = None  # if", "self.state = state  # if"),
            "replica: holes are skipped": ("!= len(entries) - 1", "< 0"),
            "replica: a gap is not noticed": ("entries[0].number != self.rounds + 1 if entries", "False if entries"),
        },
    ),
]
