"""Errors in what guards the service: keys believed too easily or too long, others' models shown, forged webhooks."""

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
        laws=("test_rotation_never_lengthens_a_life", "test_a_key_revoked_while_it_is_rotated_stays_revoked"),
        errors=(
            ("lives longer", "rotate", "min(old.expires_at, now + overlap_seconds)", "now + overlap_seconds"),
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
            ("a new route is open to readers", "need_of", "_READ if method == 'GET' else _ADMIN", "_READ"),
            ("/v1 is another matter", "_check", "path = path.removeprefix('/v1')", ""),
            ("keys for some models open what is of all", "_check", "need.every_model", "False"),
            ("a request too many", "_check_count", "counted.left < 0", "counted.left < -1"),
        ),
    ),
    Errors(
        concept="others' models",
        laws=(
            "test_models_of_others_cannot_be_told_from_none",
            "test_a_batch_too_large_tells_nothing_of_others",
            "test_a_list_has_the_keys_own_models_only",
        ),
        errors=(
            ("predict", "router.predict", "check_model(request.model, 'model')", ""),
            ("predict in batches", "router.predict_batch", "check_model(batch.model, 'model')", ""),
            ("learn", "feedback._allowed", "check_model(request.prediction_id.model, 'prediction_id')", ""),
            ("are listed", "Catalogue.list", "listed.name in own", "True"),
        ),
    ),
    Errors(
        concept="presented key",
        home="presented_key",
        laws=("test_a_malformed_key_is_refused", "test_a_key_comes_in_either_header"),
        errors=(
            ("either of two keys", "presented_key", "len(keys) > 1", "False"),
            ("another scheme is ignored", "presented_key", "not keys and other_scheme", "False"),
        ),
    ),
    Errors(
        concept="key syntax",
        home="KeySyntax",
        laws=("test_a_malformed_key_is_refused", "test_open_operations_ignore_keys"),
        errors=(
            ("any text is a key", "__call__", "not is_well_formed(key)", "False"),
            ("open operations check keys", "__call__", "need_of(scope['method'], scope['path']) is None", "False"),
        ),
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
        errors=(("every charset passes", "check_charset", "str(charset).lower() not in ('utf-8', 'utf8')", "False"),),
    ),
    Errors(
        concept="wrong keys",
        home="WrongKeys",
        laws=("test_so_many_a_window_are_refused_as_ever", "test_an_address_is_one_source"),
        errors=(
            ("one too many", "count", "seen >= MOST_WRONG_KEYS", "seen > MOST_WRONG_KEYS"),
            ("each address of a network", "_source", "(int(known) >> 64 << 64, 64)", "(int(known), 128)"),
        ),
    ),
    Errors(
        concept="webhook",
        home="Verifier",
        laws=("test_a_wrong_signature_is_refused", "test_a_right_signature_is_let_in"),
        errors=(
            ("of any age", "check_headers", "abs(int(timestamp) - self._now()) > TOLERANCE_SECONDS", "False"),
            ("for the first secret only", "verify", "self._signers", "self._signers[:1]"),
            ("with any signature", "verify", "raise SignatureError(_UNSIGNED)", ""),
        ),
    ),
)
