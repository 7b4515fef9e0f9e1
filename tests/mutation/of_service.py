"""Errors in the service's guarantees: true propensities, exactly once, read your writes, one state on all workers."""

from tests.mutation.mutation import Errors

SERVICE = (
    Errors(
        concept="draw",
        laws=(
            "test_the_log_has_the_propensity_that_was_answered",
            "test_draws_of_a_batch_are_independent",
            "test_a_round_keeps_its_residual_uniform",
        ),
        errors=(
            (
                "the leader's propensity",
                "choosing.choose",
                "distributions, evidence, draws, sound = choice.choose(*args)",
                "distributions, evidence, draws, sound = choice.choose(*args)\n"
                "draws = draws._replace(propensities=distributions.max(axis=1))",
            ),
            (
                "one uniform for the whole batch",
                "chance_of",
                "random((n, requests[0].options.top or 1, model.choice.uniforms))",
                "np.repeat(random((1, requests[0].options.top or 1, model.choice.uniforms)), n, axis=0)",
            ),
            (
                "another prediction's distribution",
                "answering._listed",
                "slice(starts[i], starts[i + 1])",
                "slice(starts[0], starts[1])",
            ),
            (
                "residual uniform not stored",
                "predictions_of",
                "chosen.draws.residual_uniforms",
                "0.0 * chosen.draws.residual_uniforms",
            ),
        ),
    ),
    Errors(
        concept="freshness",
        laws=(
            "test_a_prediction_includes_every_round_acknowledged_before_the_lag",
            "test_a_propensity_is_that_of_the_rounds_seen",
            "test_an_idle_worker_catches_up_before_it_predicts",
            "test_upkeep_reads_the_log_before_the_state_is_too_old",
            "test_upkeep_of_a_model_without_requests_reads_nothing",
            "test_recorded_rounds_are_folded_in_longer_stretches_if_predictions_may_lag",
            "test_a_state_that_failed_to_catch_up_is_not_new",
            "test_the_age_of_a_state_counts_from_before_the_read",
            "test_a_state_that_was_freed_is_not_new",
            "test_no_prediction_misses_a_change",
            "test_a_change_of_the_policy_is_in_force_at_once",
        ),
        errors=(
            (
                "every prediction may lag",
                "Predictor._new_enough",
                "replica.is_newer_than(replica.model.definition.freshness.max_lag_seconds)",
                "replica.state is not None",
            ),
            (
                "no prediction lags",
                "Predictor._new_enough",
                "replica.model.definition.freshness.max_lag_seconds",
                "0.0",
            ),
            ("read first, but not folded", "Predictor._new_enough", "await replica.catch_up_locked()", ""),
            (
                "the age counts from the end of the read",
                "Replica.catch_up_locked",
                "self._complete_at = begun_at",
                "self._complete_at = self._monotonic()",
            ),
            (
                "a failed catch-up counts",
                "Replica.catch_up_locked",
                "begun_at, self._complete_at = self._monotonic(), -math.inf",
                "begun_at = self._monotonic()",
            ),
            ("no state is new", "Replica.is_newer_than", "self.state is not None", "True"),
            ("upkeep comes too late", "Upkeep._is_late", "_READ_AFTER * self._lag", "self._lag"),
            ("upkeep of an idle model reads", "Upkeep.run", "self.rounds_waiting", "True"),
            (
                "a change is missed",
                "add_predictions_late.lua:is_of_this_log",
                "or changes_seen ~= changes or there[8] ~= ARGV[10] then",
                "then",
            ),
            (
                "short stretches in spite of the lag",
                "Upkeep._start_if_due",
                "FOLD_EVERY_IF_LATE if lag else FOLD_EVERY",
                "FOLD_EVERY",
            ),
        ),
    ),
    Errors(
        concept="prediction",
        laws=(
            "test_a_repeated_request_returns_the_stored_prediction",
            "test_a_prediction_has_label_propensity_and_expiry",
            "test_late_feedback_follows_the_models_policy",
            "test_two_workers_match_the_plain_python_model",
        ),
        errors=(
            (
                "missed rounds are not checked",
                "Predictor._new_enough",
                "replica.seen(newer=includes_all)",
                "replica.seen(newer=True)",
            ),
            (
                "missed rounds are not folded",
                "Predictor._decide_and_store",
                "await replica.catch_up_locked(stored)",
                "",
            ),
            (
                "drawn before the missed rounds",
                "Predictor._decide_and_store",
                "decided = await self._decide(model, seen, requests)",
                "decided = decided if _ else await self._decide(model, seen, requests)",
            ),
            ("a repeat is drawn again", "answering._answers", "isinstance(head, bytes)", "False"),
            ("no window", "predictions_of", "now + model.definition.window_seconds", "now"),
        ),
    ),
    Errors(
        concept="repeat",
        laws=(
            "test_an_id_with_another_context_is_a_conflict",
            "test_the_order_of_indices_does_not_matter",
            "test_an_answered_request_keeps_its_answer",
            "test_another_request_under_the_same_id_is_refused",
        ),
        errors=(
            (
                "any context is accepted",
                "stored_answer",
                "stored.fingerprint not in (mark, held_out(mark))",
                "False",
            ),
            ("a change forgets its answers", "Predictor._repeated", "request.id is None", "True"),
            (
                "another request gets the answer",
                "Predictor._repeated",
                "isinstance(answer, PredictionConflictError)",
                "False",
            ),
            ("the order of indices counts", "SparseKind.fingerprinted", "sorted", "list"),
            (
                "values are ignored",
                "SparseKind.fingerprinted",
                "struct.pack('<qd', *pair)",
                "struct.pack('<q', pair[0])",
            ),
        ),
    ),
    Errors(
        concept="replica",
        home="LogFold",
        laws=(
            "test_a_replica_catches_up_from_nothing[gaptron]",
            "test_a_replica_follows_the_log",
            "test_a_replica_starts_from_a_snapshot",
            "test_a_log_that_lacks_rounds_is_corrupt",
            "test_a_log_that_lost_rounds_and_continued_is_followed",
            "test_a_failed_fold_leaves_no_partial_state",
        ),
        errors=(
            (
                "every stretch is folded twice",
                "_fold",
                "self._note_rounds(stretch.rows.table)",
                "self.state = self.model.learner.fold(self.state, self.model.rounds_of(stretch.rows))",
            ),
            ("counts only the first entry of a page", "_fold", "entries[-1].last_round", "entries[0].last_round"),
            ("a partial fold is used", "_learn", "(self.state, None)", "(self.state, self.state)"),
            ("a diverged log is not detected", "_contradicts", "there != self._last_at", "False"),
        ),
    ),
    Errors(
        concept="start of a replica",
        home="Replica",
        laws=("test_a_replica_starts_from_a_snapshot",),
        errors=(
            (
                "a snapshot starts at round 0",
                "_start_from",
                "self.round_count = self.snapshot_rounds = rounds",
                "self.round_count = self.snapshot_rounds = 0",
            ),
        ),
    ),
    Errors(
        concept="tail",
        laws=(
            "test_a_replica_starts_from_a_snapshot",
            "test_a_log_that_lacks_rounds_is_corrupt",
            "test_a_log_that_lost_rounds_and_continued_is_followed",
        ),
        errors=(
            ("lost rounds are kept", "has_diverged", "tail.round_count < seen.round_count", "False"),
            (
                "a gap is not detected",
                "has_gap",
                "begin_of(form, entries[0], after) != seen.round_count + 1",
                "False",
            ),
        ),
    ),
    Errors(
        concept="log",
        laws=(
            "test_a_log_with_a_hole_is_corrupt",
            "test_workers_agree_after_damage_to_folded_rounds",
            "test_any_byte_may_be_damaged",
            "test_a_fold_ends_before_the_first_extreme_round",
        ),
        errors=(
            (
                "holes are skipped",
                "_pieces",
                "raise StoreCorruptError(f'the log has a gap before round {entry.last_round}')",
                "",
            ),
            ("a state that learned damaged rounds is kept", "Quarantine.refresh", "each.first <= rounds", "False"),
            (
                "a state that is not finite is accepted",
                "guarded_fold.learn",
                "if _is_finite(folded):\n    return folded, rounds.n",
                "return folded, rounds.n",
            ),
        ),
    ),
    Errors(
        concept="record",
        home="BlockEncoder",
        laws=("test_rounds_survive_to_the_bit", "test_records_of_extreme_sizes_survive"),
        errors=(
            (
                "propensity complemented",
                "encode",
                "predictions.propensities.tolist()",
                "(1.0 - predictions.propensities).tolist()",
            ),
            (
                "propensities rounded",
                "encode",
                "predictions.propensities.tolist()",
                "predictions.propensities.astype(np.float32).tolist()",
            ),
            (
                "residual uniform is not kept",
                "_bodies",
                "predictions.residual_uniforms.tolist()",
                "[0.0] * len(predictions.residual_uniforms)",
            ),
            (
                "the check leaves out the parts",
                "encode",
                "check_of(answered(p, answer, *seen) + body + common)",
                "check_of(answered(p, answer, *seen) + body)",
            ),
            ("masks are left out", "_bodies", "heads = list(map(add, heads, packed_masks(parts.eligible)))", ""),
        ),
    ),
    Errors(
        concept="block",
        home="blocks",
        laws=("test_another_format_is_refused",),
        errors=(("newer formats are read", "block_of", "record[0] != VERSION", "False"),),
    ),
    Errors(
        concept="state",
        home="decode_state",
        laws=("test_state_of_another_learner_is_refused",),
        errors=(
            (
                "another learner's state is read",
                "decode_state",
                "_metadata(data).get('learner') != identity(learner)",
                "False",
            ),
        ),
    ),
    Errors(
        concept="feedback rules",
        laws=(
            "test_a_prediction_is_kept_for_an_hour_after_its_window",
            "test_full_information_needs_the_true_label",
            "test_an_id_of_another_model_is_refused",
            "test_feedback_is_recorded_once_and_then_a_duplicate",
        ),
        errors=(
            ("no true label needed", "feedback.feedback_rules", "model.learner.needs_true_label", "False"),
            (
                "predictions expire with the window",
                "closing.keep_seconds",
                "KEPT_FOR_OUTAGES if closes(definition) else FORGET_AFTER",
                "0.0",
            ),
            ("another model's id is accepted", "prediction_item", "given.model not in ('', model)", "False"),
            (
                "a duplicate is called recorded",
                "FeedbackJoiner._to_answer",
                "status is FeedbackStatus.RECORDED",
                "True",
            ),
        ),
    ),
)
