"""Errors in what guards the service: keys believed too easily or too long, others' models shown, forged webhooks."""

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
        ),
        errors=(
            (
                "any secret opens a known id",
                "identify",
                "hmac.compare_digest(hashlib.sha256(key.encode()).digest(), caller.digest)",
                "True",
            ),
            ("good after its end", "identify", "caller.record.expires_at <= now", "False"),
            ("believed without limit", "identify", "now < until <= now + self._cache_seconds", "until"),
            ("a glob need only begin", "Names.__init__", "translate(glob)", "translate(glob + '*')"),
            ("every scope opens all", "Caller.__init__", "'admin' in record.scopes", "record.scopes"),
        ),
    ),
    Errors(
        concept="rotated key",
        home="KeyAdmin",
        laws=("test_rotation_never_extends_a_key", "test_a_key_revoked_while_it_is_rotated_stays_revoked"),
        errors=(
            ("lives longer", "rotate", "min(old.expires_at, now + overlap_seconds)", "now + overlap_seconds"),
            ("survives a revocation", "rotate", "await self._table.remove(issued.id)", ""),
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
            ("a new route is open to readers", "need_of", "_READ if method == 'GET' else _ADMIN", "_READ"),
            ("/v1 is another matter", "_check", "path = path.removeprefix('/v1')", ""),
            ("keys for some models open what is of all", "_check", "need.every_model", "False"),
            ("a request too many", "_check_count", "counted.left < 0", "counted.left < -1"),
        ),
    ),
    Errors(
        concept="others' models",
        laws=(
            "test_foreign_models_look_absent",
            "test_a_large_batch_reveals_nothing_about_foreign_models",
            "test_a_list_shows_only_the_models_of_the_key",
        ),
        errors=(
            ("predict", "router.predict", "check_model(request.model, 'model')", ""),
            ("predict in batches", "router.predict_batch", "check_model(batch.model, 'model')", ""),
            ("learn", "feedback._allowed", "check_model(request.prediction_id.model, 'prediction_id')", ""),
            ("are listed", "Catalogue.list", "listed.name in own", "True"),
        ),
    ),
    Errors(
        concept="wrong keys",
        home="WrongKeys",
        laws=(
            "test_wrong_keys_over_the_limit_wait_for_the_next_window",
            "test_addresses_of_one_network_are_one_source",
        ),
        errors=(
            ("one too many", "count", "seen >= MOST_WRONG_KEYS", "seen > MOST_WRONG_KEYS"),
            ("each address of a network", "_source", "(int(known) >> 64 << 64, 64)", "(int(known), 128)"),
        ),
    ),
    Errors(
        concept="webhook",
        home="Verifier",
        laws=("test_a_wrong_signature_is_refused", "test_a_valid_signature_is_accepted"),
        errors=(
            ("of any age", "check_headers", "abs(int(timestamp) - self._now()) > TOLERANCE_SECONDS", "False"),
            ("for the first secret only", "verify", "self._signers", "self._signers[:1]"),
            ("with any signature", "verify", "raise SignatureError(_UNSIGNED)", ""),
        ),
    ),
)
