"""Errors in the service's promises: read your writes, true propensities, the same state everywhere."""

from tests.mutation.mutation import Place, laws

_ONCE = "tests/service/rounds/test_exactly_once.py"
_HTTP = "tests/service/api/test_http.py"
_PROPENSITIES = laws(
    "tests/service/rounds/test_propensities.py",
    "test_the_log_has_the_propensity_that_was_answered",
    "test_draws_do_not_follow_each_other",
)
_REPLICA = laws(
    "tests/service/replicas/test_replica.py",
    "test_a_replica_catches_up_from_nothing[gaptron]",
    "test_a_replica_follows_the_log",
    "test_a_replica_starts_from_a_snapshot",
    "test_a_log_that_lacks_rounds_is_corrupt",
    "test_a_log_with_a_hole_is_corrupt",
    "test_a_log_that_lost_rounds_and_went_on_is_followed",
    "test_a_fold_that_raises_is_never_half_used",
)

SERVICE = [
    Place(
        "service/rounds/session.py",
        laws("tests/service/rounds/test_sessions.py", "test_a_round_keeps_what_its_draw_left"),
        {
            "desk: the leftover not stored": (
                "propensities, leftovers, evidence,",
                "propensities, 0.0 * leftovers, evidence,",
            )
        },
    ),
    Place(
        "service/rounds/session.py",
        _PROPENSITIES,
        {
            "desk: the leader's propensity": (
                "Made(outputs, propensities,",
                "Made(outputs, distributions.max(axis=1),",
            ),
            "desk: one uniform for all": (
                "self._outside.rng.random((n, self._uniforms))",
                "np.repeat(self._outside.rng.random((1, self._uniforms)), n, axis=0)",
            ),
            "desk: the distribution of another": ("drawn.distributions[i] if", "drawn.distributions[0] if"),
        },
    ),
    Place(
        "service/rounds/session.py",
        (
            *laws(
                _HTTP,
                "test_asking_again_returns_the_stored_prediction",
                "test_an_id_with_another_context_is_a_conflict",
                "test_a_prediction_answers_what_was_drawn",
            ),
            _ONCE,
        ),
        {
            "desk: never told of missed rounds": (
                "self._draw_and_keep(batch, replica.seen)\n",
                "self._draw_and_keep(batch, replica.seen._replace(newer=True))\n",
            ),
            "desk: rounds that came meanwhile are forgotten": ("await replica.catch_up(there)  #", "pass  #"),
            "desk: drawn before the rounds that came meanwhile": (
                "drawn, there = await self._draw_and_keep(batch, replica.seen._replace(newer=True))",
                "there = await self._keep(batch, drawn, replica.seen._replace(newer=True))",
            ),
            "desk: a repeat is drawn anew": ("            if record is not None:", "            if False:"),
            "desk: no window": ("now + model.definition.window_seconds", "now"),
        },
    ),
    Place(
        "service/rounds/session.py",
        ("tests/service/rounds/test_sessions.py",),
        {
            "desk: nothing is folded in the background": ("(behind >= FOLD_EVERY or", "(False or"),
        },
    ),
    Place(
        "service/replicas/snapshot_policy.py",
        ("tests/service/rounds/test_sessions.py",),
        {
            "snapshots: for their age alone": ("return self.has_many_rounds or (aged", "return (aged"),
        },
    ),
    Place(
        "service/compute.py",
        ("tests/service/test_compute.py",),
        {
            "compute: one owner takes all": ("max(1, threads // 2)", "threads"),
            "compute: owners do not take turns": (
                "self._waiting[owner] = jobs  # behind",
                "self._waiting = OrderedDict({owner: jobs, **self._waiting})  # behind",
            ),
            "compute: what is cancelled runs": ("if not job.future.cancelled():", "if True:"),
            "compute: never refuses": ("        self._closed = True\n", ""),
            "compute: slices without a bound": ("max(SLICE_COST, overhead) // max(cost, 1)", "10**9"),
        },
    ),
    Place(
        "service/replicas/replica.py",
        ("tests/service/replicas/test_snapshot_damage.py",),
        {
            "replica: snapshots without statistics": (" or not self.statistics.known", ""),
            "replica: a snapshot ahead of its log is kept": (" or self.round_count > tail.round_count", ""),
            "replica: starts again and again": ("if self._loads > _MOST_LOADS + 1:", "if False:"),
        },
    ),
    Place(
        "service/replicas/replica.py",
        ("tests/service/rounds/test_long_work.py",),
        {"replica: folds on for a deleted model": ("        if self._given_up:", "        if False:")},
    ),
    Place(
        "service/replicas/replica.py",
        _REPLICA,
        {
            "replica: folds twice": (
                "        self.rounds, self._last_at = entries",
                "        self.state = learner.fold(self.state, rounds)\n        self.rounds, self._last_at = entries",
            ),
            "replica: one page": ("while self.round_count < target or", "while"),
            "replica: counts a page as a round": (
                "self.rounds, self._last_at = entries[-1].number",
                "self.rounds, self._last_at = entries[0].number",
            ),
            "replica: a snapshot of no rounds": (
                "self.snapshot_rounds = state, rounds, rounds",
                "self.snapshot_rounds = state, 0, 0",
            ),
            "replica: a fold cut short is used": (
                "self.state = self.state, None  # if",
                "self.state = self.state, self.state  # if",
            ),
            "replica: lost rounds are kept": ("if tail.round_count < self.round_count:", "if False:"),
            "replica: other rounds are taken for its own": ("there != self._last_at", "False"),
            "replica: rounds that end elsewhere are taken for its own": ("first.number != self.rounds or", ""),
            "replica: a gap is not noticed": (
                "gap = begin_of(self.model.format, entries[0], after) != self.rounds + 1",
                "gap = False",
            ),
        },
    ),
    Place(
        "service/store/records/log_entries.py",
        (*_REPLICA, "tests/service/replicas/test_damage.py"),
        {
            "reading: holes are skipped": (
                'raise StoreCorruptError(f"the log has a hole',
                'print(f"the log has a hole',
            ),
            "reading: rounds of any number": ('if not np.array_equal(table["round"], numbers):', "if False:"),
            "reading: what others leave out is read": ("    if left_out:\n", "    if False:\n"),
            "reading: any block": ("if not _BLOCK.fullmatch(entry.block):", "if False:"),
        },
    ),
    Place(
        "service/replicas/quarantine.py",
        ("tests/service/replicas/test_damage.py",),
        {
            "quarantine: what was learned stays": ("return any(each.first <= rounds and", "return any(False and"),
            "quarantine: nothing is recorded": (
                "return await self._store.record_damage(self._model.key, found)",
                "return False",
            ),
        },
    ),
    Place(
        "service/replicas/guarded_fold.py",
        laws("tests/service/replicas/test_damage.py", "test_any_byte_may_be_damaged"),
        {"learning: a state that is none": ("        if _is_finite(folded):\n", "        if True:\n")},
    ),
    Place(
        "service/rounds/responses.py",
        laws(_HTTP, "test_an_id_with_another_context_is_a_conflict"),
        {"desk: another context is a repeat": ("or kept.fingerprint != fingerprint:", "or False:")},
    ),
    Place(
        "service/models/model.py",
        ("tests/service/rounds/test_windows.py", _HTTP + "::test_full_information_needs_the_true_label"),
        {
            "model: late feedback is never taken": ('self.definition.late_feedback == "accept"', "False"),
            "model: no truth needed": (", self.learner.needs_true_label,", ", False,"),
            "model: forgotten with its window": (
                "self.definition.window_seconds + FORGET_AFTER",
                "self.definition.window_seconds",
            ),
        },
    ),
    Place(
        "service/contexts/kind.py",
        ("tests/service/contexts/test_kinds.py",),
        {"context: of any kind": ("if not isinstance(context, self.type):", "if False:")},
    ),
    Place(
        "service/contexts/dense.py",
        ("tests/service/api/test_bad_input.py",),
        {"context: of any length": ("if len(context) != self._size:", "if False:")},
    ),
    Place(
        "service/contexts/sparse.py",
        laws(
            "tests/service/rounds/test_sparse.py",
            "test_the_order_of_indices_is_no_other_context",
            "test_wrong_sparse_contexts_are_refused",
        ),
        {
            "context: an index too large": ("if max(indices) >= self._size:", "if max(indices) > self._size:"),
            "context: an index twice": ("if len(set(indices)) < len(indices):", "if False:"),
            "context: more indices than values": ("if len(indices) != len(values):", "if False:"),
            "context: the order of indices counts": (
                "sorted(zip(context.indices, context.values, strict=True))",
                "list(zip(context.indices, context.values, strict=True))",
            ),
            "context: equal indices are equal contexts": (
                'struct.pack("<qd", *pair) for pair in pairs',
                'struct.pack("<q", pair[0]) for pair in pairs',
            ),
        },
    ),
    Place(
        "service/models/answer_kinds.py",
        ("tests/service/api/test_bad_input.py",),
        {
            "answer: a label twice": ("if numbers[label] in found:", "if False:"),
            "answer: a ranking of some labels": ("if len(numbers) < len(self._labels):", "if False:"),
            "answer: one label's truth for a set": ("if feedback.true_label is not None:", "if False:"),
        },
    ),
    Place(
        "service/rounds/use_cases.py",
        ("tests/service/api/test_bad_input.py::test_bad_input_is_refused_and_changes_nothing[feedback: nothing said]",),
        {"rounds: feedback that says nothing": ("if request.correct is None and request", "if False and request")},
    ),
    Place(
        "service/rounds/use_cases.py",
        (_HTTP,),
        {
            "rounds: an id of another model": ("if name != model:", "if False:"),
            "rounds: a duplicate is called recorded": (
                '"recorded" if status is FeedbackStatus.RECORDED else "duplicate"',
                '"recorded"',
            ),
        },
    ),
    Place(
        "service/rounds/batching.py",
        ("tests/service/rounds/test_batching.py",),
        {
            "batching: results in another order": ("results[start:stop]", "results[::-1][start:stop]"),
            "batching: no limit": ("len(self._waiting[0].items) <= room", "True"),
            "batching: one error for all": ("if isinstance(result, Exception):", "if False:"),
        },
    ),
]
