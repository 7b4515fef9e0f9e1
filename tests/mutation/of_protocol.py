"""Errors in the protocol: exactly once, true propensities, freshness, read your writes, tenancy."""

from tests.mutation.mutation import Errors

PROTOCOL: Errors = {
    "test_the_log_has_the_propensity_that_was_answered": [
        (
            "protocol: the leader's propensity",
            "choosing.choose",
            "distributions, evidence, draws, sound = choice.choose(*args)",
            "distributions, evidence, draws, sound = choice.choose(*args)\n"
            "draws = draws._replace(propensities=distributions.max(axis=1))",
        ),
    ],
    "test_a_deleted_model_counts_until_it_is_erased": [
        (
            "protocol: a deletion frees open bytes at once",
            "delete_model.lua",
            "deleted, field, bytes",
            "deleted, field, 0",
        ),
        ("protocol: other models are erased", "RedisStore.erase", "and key in deleted", "and key"),
    ],
    "test_a_model_that_is_there_is_not_erased": [
        ("protocol: a model is erased although its deletion is lost", "erase_keys.lua", "~= ARGV[1]", "~= ''"),
    ],
    "test_a_search_begins_after_the_deletion": [
        (
            "protocol: a search begins before the deletion",
            "RedisStore.claim_deleted",
            "if own != key.incarnation.encode()",
            "",
        ),
        (
            "protocol: a deletion is erased after the lease",
            "RedisStore.delete_model",
            "if own: # due",
            "if False: # due",
        ),
    ],
    "test_another_worker_ends_what_one_has_begun": [
        ("protocol: a search that failed is not repeated", "Erasure.run", "_AT_ONCE, _LEASE", "_AT_ONCE, 1e9"),
    ],
    "test_draws_of_a_batch_are_independent": [
        (
            "protocol: one uniform for the whole batch",
            "chance_of",
            "random((n, requests[0].options.top or 1, model.choice.uniforms))",
            "np.repeat(random((1, requests[0].options.top or 1, model.choice.uniforms)), n, axis=0)",
        ),
    ],
    "test_a_round_keeps_its_residual_uniform": [
        (
            "protocol: residual uniform not stored",
            "predictions_of",
            "chosen.draws.residual_uniforms",
            "0.0 * chosen.draws.residual_uniforms",
        ),
    ],
    "test_a_prediction_includes_every_round_acknowledged_before_the_lag": [
        (
            "protocol: every prediction may lag",
            "Predictor._new_enough",
            "replica.is_newer_than(replica.model.definition.freshness.max_lag_seconds)",
            "replica.state is not None",
        ),
        ("protocol: read first, but not folded", "Predictor._new_enough", "await replica.catch_up_locked()", "pass"),
    ],
    "test_a_change_ends_stickiness_in_every_worker[retire]": [
        ("protocol: retired labels stick", "identified", "model.digest + ", ""),
    ],
    "test_the_age_of_a_state_counts_from_before_the_read": [
        (
            "protocol: the age counts from the end of the read",
            "Replica.catch_up_locked",
            "self._complete_at = begun_at",
            "self._complete_at = self._monotonic()",
        ),
    ],
    "test_no_prediction_misses_a_change": [
        (
            "protocol: a change is missed",
            "add_predictions_late.lua.is_of_this_log",
            "or changes_seen ~= changes or there[8] ~= ARGV[10] then",
            "then",
        ),
    ],
    "test_two_workers_match_the_plain_python_model": [
        (
            "protocol: missed rounds are not checked",
            "Predictor._new_enough",
            "(allow_newer=includes_all)",
            "(allow_newer=True)",
        ),
        (
            "protocol: missed rounds are not folded",
            "Predictor._decide_and_store",
            "await replica.catch_up_locked(stored)",
            "pass",
        ),
        (
            "protocol: drawn before the missed rounds",
            "Predictor._decide_and_store",
            "decided = await self._decide(model, seen, requests)",
            "decided = decided if _ else await self._decide(model, seen, requests)",
        ),
    ],
    "test_a_repeated_request_returns_the_stored_prediction": [
        ("protocol: a repeat is drawn again", "answering._answers", "isinstance(head, bytes)", "False"),
    ],
    "test_an_id_with_another_context_is_a_conflict": [
        (
            "protocol: any context is accepted",
            "answering.stored_answer",
            "stored.fingerprint not in (mark, held_out(mark))",
            "False",
        ),
    ],
    "test_a_log_that_lost_rounds_and_continued_is_followed": [
        ("protocol: a diverged log is not detected", "LogFold._contradicts", "expected != self._last_at", "False"),
    ],
    "test_a_log_that_lacks_rounds_is_corrupt": [
        (
            "protocol: a gap is not detected",
            "has_gap",
            "begin_of(form, entries[0], after) != seen.round_count + 1",
            "False",
        ),
    ],
    "test_a_log_with_a_hole_is_corrupt": [
        (
            "protocol: holes are skipped",
            "_pieces",
            'raise StoreCorruptError(f"the log lacks rounds before the entry that ends with round {entry.last_round}")',
            "pass",
        ),
    ],
    "test_a_fold_ends_before_the_first_extreme_round": [
        (
            "protocol: a state that is not finite is accepted",
            "guarded_fold.learn",
            "if is_finite(folded):\n    return folded, rounds.n",
            "return folded, rounds.n",
        ),
    ],
    "test_rounds_survive_to_the_bit": [
        (
            "protocol: propensity complemented",
            "BlockEncoder.encode",
            "predictions.propensities.tolist()",
            "(1.0 - predictions.propensities).tolist()",
        ),
    ],
    "test_feedback_is_recorded_once_and_confirmed_again": [
        ("protocol: duplicates make rounds", "add_feedback.lua.judge", "if not fresh then if", "if false then if"),
    ],
    "test_duplicates_in_one_call_make_one_round": [
        ("protocol: conflicts are duplicates", "add_feedback.lua.compare", "if reward ~= first_reward or", "if"),
        ("protocol: every round counts as correct", "blocks.lua.close", "(reward == 1 and 1 or 0)", "1"),
    ],
    "test_an_abstained_round_is_neither_right_nor_wrong[of_statistics]": [
        ("protocol: abstentions are wrong", "add_feedback.lua.meaning", "if abstained(block, prediction)", "if false"),
        ("protocol: accuracy includes abstentions", "statistics._detailed", 'ours & ~table["abstained"]', "ours"),
    ],
    "test_an_abstained_round_is_neither_right_nor_wrong[of_description]": [
        ("protocol: abstentions are not counted", "blocks.lua.close", "reward > 0 and reward < 1 and", "false and"),
    ],
    "test_the_window_includes_its_last_moment": [
        ("protocol: late feedback is accepted", "add_feedback.lua.refusal", "not accept_late or", "false or"),
    ],
    "test_a_deletion_leaves_nothing_but_predictions": [
        ("protocol: two entries with one number", "blocks.lua.append_rounds", "log.rounds + #", "log.first + #"),
    ],
    "test_rounds_of_one_call_and_block_are_one_entry": [
        ("protocol: two rounds with one number", "blocks.lua.close", "at, log.rounds + place", "at, log.rounds + 1"),
    ],
    "test_no_damaged_byte_of_a_block_makes_a_round": [
        ("protocol: the check of a body is not verified", "blocks.lua.body_of", "and check_of(whole) == check", ""),
        ("protocol: damaged heads are read", "blocks.lua.parse_block", "~= read(CHECK", "== 1 - read(CHECK"),
    ],
    "test_records_of_extreme_sizes_survive": [
        ("protocol: rounds without what their predictions saw", "blocks.lua.body_of", ".. block.seen ..", ".."),
    ],
    "test_a_deadline_that_is_too_early_closes_nothing": [
        ("protocol: open windows are closed", "close_expired.lua.close_all", "now <= block.expires_at", "false"),
    ],
    "test_feedback_waits_for_the_end_of_the_window": [
        ("protocol: feedback that waits is lost", "close_expired.lua.close_one", "elseif waits", "elseif false"),
        ("protocol: feedback does not wait", "add_feedback.lua.judge", "if log.waits then", "if false then"),
    ],
    "test_predictions_from_another_log_get_the_tail": [
        (
            "protocol: a prediction one round late is stored",
            "add_predictions_late.lua.is_of_this_log",
            "if seen == rounds then",
            "if seen + 1 >= rounds then",
        ),
        (
            "protocol: missed rounds are not sent",
            "add_predictions_late.lua",
            "seen >= 0 and not is_of_this_log() then",
            "false then",
        ),
    ],
    "test_every_call_for_a_deleted_model_is_refused": [
        ("protocol: another incarnation's model is accepted", "add_predictions.lua", "there[1] ~= ARGV", "not there"),
    ],
    "test_a_prediction_is_stored_unless_its_id_is_in_use": [
        ("protocol: an id in use is overwritten", "add_predictions.lua", ", 'NX', 'GET')", ", 'GET')"),
    ],
    "test_only_a_newer_snapshot_is_kept": [
        ("protocol: an older snapshot is kept", "save_snapshot.lua.is_ahead", "there.rounds <", "there.rounds ~="),
    ],
    "test_trimming_keeps_the_retained_rounds": [
        ("protocol: the whole log is trimmed", "save_snapshot.lua", "- math.max(tonumber(ARGV[7]), 1) + 1", "+ 1"),
    ],
    "test_a_name_is_given_once": [
        ("protocol: a name is given twice", "create_model.lua", "if there then", "if false then"),
    ],
    "test_the_store_keeps_the_records": [
        ("protocol: rotation restores a revoked key", "replace_api_key.lua", "== 0 then", "== 2 then"),
    ],
    "test_model_changes::test_a_repeated_change_is_made_once": [
        ("protocol: another version is changed", "change_model.lua", "if there[5] ~= ARGV[2] then", "if false then"),
    ],
    "test_a_holdout_is_answered_by_its_policy_and_never_learned": [
        (
            "protocol: the holdout is learned",
            "learnable",
            '(rows.table["flags"] & HOLDOUT) != 0',
            "rows.table['flags'] < 0",
        ),
    ],
    "test_an_answer_has_a_label_of_the_change_that_is_there": [
        (
            "protocol: another change has the same labels",
            "Predictor._decide_and_store",
            "replica.model is not model",
            "replica.model.change_count != model.change_count",
        ),
    ],
    "test_a_repeated_request_has_the_same_eligible_labels": [
        (
            "protocol: the eligible labels are not in the fingerprint",
            "fingerprint",
            "request.options == NO_OPTIONS",
            "True",
        ),
    ],
    "test_an_altered_key_is_refused": [
        (
            "protocol: any secret is accepted for a known id",
            "_is_key_of",
            "hmac.compare_digest(hashlib.sha256(key.encode()).digest(), caller.digest)",
            "True",
        ),
    ],
    "test_a_revocation_takes_effect_within_the_cache_time": [
        ("protocol: valid after its expiry", "Gatekeeper.identify", "caller.record.expires_at <= now", "False"),
        ("protocol: cached without limit", "Gatekeeper.identify", "now < until <= now + self._cache_seconds", "until"),
    ],
    "test_foreign_models_look_absent": [
        ("protocol: predict is not checked", "router.predict", 'check_model(request.model, "model")', "pass"),
        (
            "protocol: feedback is not checked",
            "feedback._allowed",
            'check_model(request.prediction_id.model, "prediction_id")',
            "pass",
        ),
    ],
    "test_a_list_shows_only_the_models_of_the_key": [
        ("protocol: the list is not filtered", "Catalogue.page", "name in own", "True"),
    ],
    "test_a_wrong_signature_is_refused": [
        (
            "protocol: any age is accepted",
            "Receiver.check_headers",
            "abs(int(timestamp) - self._now()) > TOLERANCE_SECONDS",
            "False",
        ),
        (
            "protocol: any signature is accepted",
            "Receiver.verify",
            "any(hmac.compare_digest(expected, each) for each in signed.signatures)",
            "True",
        ),
    ],
    "test_only_what_may_help_and_cannot_harm_is_repeated": [
        ("protocol: unsafe requests are repeated", "Attempts.wait_after", "not self._repeatable", "False"),
    ],
    "test_every_attempt_has_the_same_id": [
        ("protocol: no id before the first attempt", "operations.predict", "new_id()", "None"),
    ],
    "test_rounds_are_appended_once": [
        ("protocol: repeated rounds are appended again", "import_rounds.lua", "if position ~= place or", "if"),
    ],
}

SIMULATED: Errors = {
    "test_simulated_runs_break_no_promise[2000]": [
        (
            "protocol: a cancelled fold leaves half a state",
            "LogFold._learn",
            "state, self.state = self.state, None",
            "state = self.state",
        ),
        (
            "protocol: no rules after a snapshot of a shadow",
            "ShadowReplica._start",
            "self.sums = decode_sums(snapshot.statistics)",
            "self.sums, terms = decode_sums(snapshot.statistics), self._recomputing._terms\n"
            "limits = terms.limits._replace(each=terms.limits.each[:0])\n"
            "self._recomputing._terms = terms._replace(limits=limits)",
        ),
        (
            "protocol: unconfirmed writes are acknowledged",
            "Confirmed._call_and_wait",
            "replicas < self._replicas",
            "False",
        ),
        (
            "protocol: the first of several changes of rules counts",
            "changes.after",
            "updates |= change.policies",
            "updates = change.policies | updates",
        ),
        (
            "protocol: no rules after a snapshot",
            "Replica._start_from",
            "self._keep(state)",
            "self._keep(state)\nmodel.choice.limits = model.choice.limits._replace(each=model.choice.limits.each[:0])",
        ),
        (
            "protocol: a change of costs counts from the next change on",
            "LogFold._make",
            "self._use(after)",
            "self._use(after)\n"
            "if len(after.definition.labels) == len(before.definition.labels):\n"
            "    after.choice.label_costs = before.choice.label_costs",
        ),
        (
            "protocol: the budget forgets what was spent before a snapshot",
            "Replica._start_from",
            "self._keep(state)",
            "self._keep(state)\nif hasattr(state, 'pacing'):\n    state.pacing[:2] = 0.0",
        ),
        (
            "protocol: λ counts the lag from the newest round",
            "prices.bills_of",
            'table["round"] - 1 - table["rounds_seen"]',
            'table["round"].max() - 1 - table["rounds_seen"]',
        ),
        (
            "protocol: rounds without a price have one beside others",
            "LabelChoice.stored",
            "if self.definition.costs is None:",
            "if False:",
        ),
        (
            "protocol: a shadow pays for the sampled answer instead of its expected cost",
            "progressive._progress",
            "_pay(terms, t, prices, decisions.distributions[0], _pacing_of(state))",
            "_pay(terms, t, prices, np.eye(len(decisions.distributions[0]))[one.labels[0]], _pacing_of(state))",
        ),
        (
            "protocol: the half-life begins anew after a snapshot",
            "Replica._start_from",
            "self._keep(state)",
            "self._keep(state)\nif hasattr(state, 'latest'):\n    state.latest[:] = 0",
        ),
        (
            "protocol: contexts that differ are stored once",
            "new_predictions._count_varying",
            "all([tail[varying - 1] == first[varying - 1] for tail in tails])",
            "any([tail[varying - 1] == first[varying - 1] for tail in tails])",
        ),
    ],
    "test_simulated_runs_break_no_promise[7000]": [
        ("protocol: no parts count", "save_snapshot.lua", "or redis.call('HLEN', KEYS[4]) ~= tonumber(ARGV[6])", ""),
    ],
    "test_simulated_runs_break_no_promise[1000]": [
        (
            "protocol: a change of rules counts from the next change on",
            "LogFold._make",
            "self._use(after)",
            "self._use(after)\n"
            "if len(after.definition.labels) == len(before.definition.labels):\n"
            "    none = after.choice.limits._replace(each=after.choice.limits.each[:0])\n"
            "    after.choice.limits = before.choice.rules.of_labels if before.choice.rules else none",
        ),
        (
            "protocol: a cancelled batch stays in flight",
            "GroupCommit._handle",
            "self._end(len(items))",
            "if not (asyncio.current_task() or self).cancelling():\n    self._end(len(items))",
        ),
        (
            "protocol: a cancelled item ends the answers of its batch",
            "GroupCommit._run",
            "if not waiting.future.done():",
            "if True:",
        ),
        (
            "protocol: the items of a batch get the answer to the first",
            "GroupCommit._run",
            "waiting.future.set_result(results[start:stop])",
            "waiting.future.set_result(results[: len(waiting.items)])",
        ),
        (
            "protocol: an evaluation sticks beyond a change",
            "stickiness.identified",
            "content = model.digest + fingerprint(model, request)",
            "content = fingerprint(model, request)",
        ),
        (
            "protocol: each moment has another evaluation",
            "stickiness.stickiness",
            "now // seconds",
            "now / seconds",
        ),
        (
            "protocol: closed blocks leave their key's bytes open",
            "blocks.lua.keep",
            "-(#block.record + KEY_BYTES)",
            "-#block.record",
        ),
        (
            "protocol: blocks of one call count apart",
            "add_predictions_late.lua",
            "added = fits and after or added",
            "added = 0",
        ),
        (
            "protocol: refused blocks are counted, not their predictions",
            "add_predictions.lua.add_all",
            "refused + n",
            "refused + 1",
        ),
        (
            "protocol: a store without a disk looks damaged",
            "driver_errors.translated_error",
            'if message.startswith("MISCONF")',
            'if message.startswith("NO MISCONF")',
        ),
        (
            "protocol: inactive predictions take feedback",
            "add_feedback.lua.refusal",
            "return 'a'",
            "return nil",
        ),
        ("protocol: snapshots expire", "save_snapshot.lua", "call('PERSIST', KEYS[3])", "call('EXPIRE', KEYS[3], 5)"),
        (
            "protocol: trimmed rounds are not in the snapshot",
            "forget_old.lua",
            "round_count(entry) >= needed then",
            "false then",
        ),
    ],
}
"""Errors that a simulation of a minute finds."""
