"""Errors in access control: keys trusted too easily or too long, other tenants' models exposed, forged webhooks."""

from tests.mutation.mutation import Errors

ACCESS = (
    Errors(
        concept="key",
        home="Gatekeeper",
        laws=(
            "test_an_altered_key_is_refused",
            "test_a_revocation_takes_effect_within_the_cache_time",
            "test_both_keys_work_during_a_rotation",
            "test_a_glob_matches_letters_and_stars",
            "test_a_scope_opens_its_own_operations_only",
            "test_a_rotation_has_no_gap",
            "test_a_revoked_key_stops_within_the_delay",
            "test_a_key_is_valid_until_its_expiry",
        ),
        errors=(
            (
                "any secret is accepted for a known id",
                "identify",
                "hmac.compare_digest(hashlib.sha256(key.encode()).digest(), caller.digest)",
                "True",
            ),
            (
                "a slow lookup prolongs a revoked key",
                "_look_up",
                "self._cache[key_id] = (until, caller)",
                "self._cache[key_id] = (self._now() + self._cache_seconds, caller)",
            ),
            ("valid after its expiry", "identify", "caller.record.expires_at <= now", "False"),
            ("cached without limit", "identify", "now < until <= now + self._cache_seconds", "until"),
            ("a glob matches prefixes", "Names.__init__", "translate(glob)", "translate(glob + '*')"),
            ("every scope is admin", "Caller.__init__", "'admin' in record.scopes", "record.scopes"),
        ),
    ),
    Errors(
        concept="rotated key",
        home="KeyAdmin",
        laws=("test_rotation_never_extends_a_key", "test_a_key_revoked_while_it_is_rotated_stays_revoked"),
        errors=(
            (
                "outlives the old key's expiry",
                "rotate",
                "min(old.expires_at, now + overlap_seconds)",
                "now + overlap_seconds",
            ),
            ("survives a revocation", "rotate", "await self._table.remove(issued.id)", ""),
        ),
    ),
    Errors(
        concept="damaged key",
        laws=("test_a_damaged_record_stops_its_key_only", "test_keys_in_a_value_of_another_type_are_unavailable"),
        errors=(
            ("the log shows the record", "read_record", "_reason(error)", "error"),
            ("damage is answered with 500", "Access.admit", "StoreCorruptError", "ZeroDivisionError"),
        ),
    ),
    Errors(
        concept="log line",
        laws=(
            "test_a_hostile_request_is_one_plain_line",
            "test_any_text_is_one_plain_line",
            "test_a_long_text_is_shortened",
            "test_no_message_of_an_error_looks_like_an_event",
        ),
        errors=(
            ("control characters are written", "_printable", "text.isprintable()", "True"),
            ("long texts are written", "_printable", "len(text) > _MOST_CHARACTERS", "False"),
            ("tracebacks are not indented", "_write_traceback", "'\\n  '", "'\\n'"),
            (
                "any name in a path is written",
                "Observer._end",
                "_is_name(scope['path_params'].get('name', ''))",
                "True",
            ),
            ("any method is written", "RequestLog.write", "method if method in METHODS else 'other'", "method"),
        ),
    ),
    Errors(
        concept="access",
        home="need_of",
        laws=(
            "test_unknown_paths_are_closed",
            "test_foreign_models_look_absent",
            "test_requests_over_the_limit_of_a_key_are_refused",
        ),
        errors=(
            ("unlisted routes need only the read scope", "need_of", "_READ if method == 'GET' else _ADMIN", "_READ"),
            ("/v1 is not removed", "_check", "path = path.removeprefix('/v1')", ""),
            ("keys for some models pass where all models are needed", "_check", "need.every_model", "False"),
            ("one request too many", "_check_count", "counted.left < 0", "counted.left < -1"),
        ),
    ),
    Errors(
        concept="foreign models",
        laws=(
            "test_foreign_models_look_absent",
            "test_a_large_batch_reveals_nothing_about_foreign_models",
            "test_a_list_shows_only_the_models_of_the_key",
        ),
        errors=(
            ("predict is not checked", "router.predict", "check_model(request.model, 'model')", ""),
            ("batch predict is not checked", "router.predict_batch", "check_model(batch.model, 'model')", ""),
            (
                "feedback is not checked",
                "feedback._allowed",
                "check_model(request.prediction_id.model, 'prediction_id')",
                "",
            ),
            ("the list is not filtered", "Catalogue.page", "listed.name in own", "True"),
        ),
    ),
    Errors(
        concept="presented key",
        home="presented_key",
        laws=("test_a_malformed_key_is_refused", "test_a_key_is_accepted_in_either_header"),
        errors=(
            ("either of two keys", "presented_key", "len(keys) > 1", "False"),
            ("a key without a scheme is ignored", "presented_key", "not credentials", "False"),
        ),
    ),
    Errors(
        concept="key syntax",
        home="Access",
        laws=("test_a_malformed_key_is_refused",),
        errors=(("any text is a key", "admit", "not keys.is_well_formed(key)", "False"),),
    ),
    Errors(
        concept="query parameters",
        home="StrictRoute",
        laws=("test_an_unknown_parameter_is_refused", "test_a_repeated_parameter_is_refused"),
        errors=(
            ("unknown ones pass", "_errors", "name not in names", "False"),
            ("repeated ones pass", "_errors", "times > 1", "False"),
            ("direct routes do not check", "get_route_handler", "check_query(request, names)", ""),
        ),
    ),
    Errors(
        concept="charset",
        home="check_charset",
        laws=("test_another_charset_than_utf_8_is_refused",),
        errors=(("every charset passes", "check_charset", "charset.lower() not in ('utf-8', 'utf8')", "False"),),
    ),
    Errors(
        concept="encoding",
        home="check_text",
        laws=("test_only_utf_8_is_read", "test_null_bytes_are_not_utf_8"),
        errors=(
            ("null bytes pass", "check_text", "null >= 0", "False"),
            ("undecodable bytes pass", "check_text", "body.decode()", "body.decode(errors='replace')"),
        ),
    ),
    Errors(
        concept="half surrogate pairs",
        home="check_text",
        laws=("test_half_a_pair_anywhere_is_refused",),
        errors=(("bodies are not searched", "check_text", "check_pairs(body)", ""),),
    ),
    Errors(
        concept="damaged statistics",
        home="decode_statistics",
        laws=("test_damaged_statistics_have_one_error",),
        errors=(("recursion is no damage", "decode_statistics", "RecursionError", "KeyError"),),
    ),
    Errors(
        concept="half surrogate pairs",
        home="json_of",
        laws=("test_readers::test_half_a_surrogate_pair_is_refused",),
        errors=(("files are not searched", "json_of", "check_pairs(text.encode())", "pass"),),
    ),
    Errors(
        concept="half surrogate pairs",
        home="StrictRoute",
        laws=("test_half_a_pair_anywhere_is_refused",),
        errors=(("FastAPI's way is open", "get_route_handler", "body is None", "True"),),
    ),
    Errors(
        concept="half surrogate pairs",
        home="check_pairs",
        laws=("test_the_position_is_that_of_python", "test_whole_pairs_pass"),
        errors=(
            ("upper case is not seen", "check_pairs", "b'\\\\uD' not in body", "True"),
            ("bytes are counted", "check_pairs", "len(body[:half].decode())", "half"),
        ),
    ),
    Errors(
        concept="half surrogate pairs",
        home="read_feedback",
        laws=("test_half_a_pair_in_a_webhook_is_refused",),
        errors=(("webhooks are not searched", "read_feedback", "check_pairs(body)", "pass"),),
    ),
    Errors(
        concept="refused requests",
        home="Compute",
        laws=("test_a_refused_request_leaves_no_cycles",),
        errors=(("the frame of the thread keeps the job", "_do", "del job, result, error", "pass"),),
    ),
    Errors(
        concept="body limit",
        home="BodyLimit",
        laws=("test_a_disconnect_interrupts_no_request_without_a_body",),
        errors=(("a disconnect fails a download", "limit", "declared == 0", "False"),),
    ),
    Errors(
        concept="wrong keys",
        home="WrongKeys",
        laws=(
            "test_wrong_keys_over_the_limit_wait_for_the_next_window",
            "test_addresses_of_one_network_are_one_source",
        ),
        errors=(
            ("one wrong key too many", "count", "seen >= MOST_WRONG_KEYS", "seen > MOST_WRONG_KEYS"),
            ("counted per address, not per network", "_source", "(int(known) >> 64 << 64, 64)", "(int(known), 128)"),
        ),
    ),
    Errors(
        concept="webhook",
        home="Verifier",
        laws=("test_a_wrong_signature_is_refused", "test_a_valid_signature_is_accepted"),
        errors=(
            ("any age is accepted", "check_headers", "abs(int(timestamp) - self._now()) > TOLERANCE_SECONDS", "False"),
            ("only the first secret is tried", "verify", "self._signers", "self._signers[:1]"),
            (
                "any signature is accepted",
                "verify",
                "not any(hmac.compare_digest(one, other) for one in expected for other in signed.signatures)",
                "False",
            ),
        ),
    ),
)
