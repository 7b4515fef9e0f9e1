"""Errors in access control: keys trusted too easily or too long, other tenants' models exposed, forged webhooks."""

from tests.mutation.mutation import Errors

ACCESS = (
    Errors(
        concept="key",
        home="Gatekeeper",
        laws=(
            "test_only_the_whole_key_is_the_key",
            "test_a_revocation_is_seen_after_its_delay",
            "test_rotation_leaves_two_good_keys_for_a_while",
            "test_a_glob_is_letters_and_stars",
            "test_a_key_opens_what_its_scope_says",
        ),
        errors=(
            (
                "any secret is accepted for a known id",
                "identify",
                "hmac.compare_digest(hashlib.sha256(key.encode()).digest(), caller.digest)",
                "True",
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
        laws=("test_rotation_never_lengthens_a_life", "test_a_key_revoked_while_it_is_rotated_stays_revoked"),
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
        concept="access",
        home="need_of",
        laws=(
            "test_what_is_not_there_is_closed",
            "test_models_of_others_cannot_be_told_from_none",
            "test_a_key_makes_as_many_requests_as_it_may",
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
            "test_models_of_others_cannot_be_told_from_none",
            "test_a_batch_too_large_tells_nothing_of_others",
            "test_a_list_has_the_keys_own_models_only",
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
            ("the list is not filtered", "Catalogue.list", "listed.name in own", "True"),
        ),
    ),
    Errors(
        concept="wrong keys",
        home="WrongKeys",
        laws=("test_so_many_a_window_are_refused_as_ever", "test_an_address_is_one_source"),
        errors=(
            ("one wrong key too many", "count", "seen >= MOST_WRONG_KEYS", "seen > MOST_WRONG_KEYS"),
            ("counted per address, not per network", "_source", "(int(known) >> 64 << 64, 64)", "(int(known), 128)"),
        ),
    ),
    Errors(
        concept="webhook",
        home="Verifier",
        laws=("test_a_wrong_signature_is_refused", "test_a_right_signature_is_let_in"),
        errors=(
            ("any age is accepted", "check_headers", "abs(int(timestamp) - self._now()) > TOLERANCE_SECONDS", "False"),
            ("only the first secret is tried", "verify", "self._signers", "self._signers[:1]"),
            ("any signature is accepted", "verify", "raise SignatureError(_UNSIGNED)", ""),
        ),
    ),
)
