"""Errors in what guards the service: keys believed too long or too easily, models told of, signatures let in."""

from tests.mutation.mutation import Place, laws

_ACCESS = "tests/service/access/test_scopes.py"
_FOREIGN = laws(_ACCESS, "test_models_of_others_cannot_be_told_from_none")
_LISTED = laws(_ACCESS, "test_a_list_has_the_keys_own_models_only")
_SCOPES = laws(_ACCESS, "test_a_key_opens_what_its_scope_says")
_CLOSED = laws(_ACCESS, "test_what_is_not_there_is_closed")
_BATCH = laws(_ACCESS, "test_a_batch_too_large_tells_nothing_of_others")
_AUTH = "tests/service/access/test_keys.py"
_WEBHOOKS = "tests/service/api/test_webhooks.py"
_LIMITS = "tests/service/api/test_limits.py"

ACCESS = (
    Place(
        "service/access/keys.py",
        (_AUTH, *_LISTED, *_SCOPES),
        {
            "access: any secret will do for a known id": (
                "if caller is None or not hmac.compare_digest(hashlib.sha256(key.encode()).digest(), caller.digest):",
                "if caller is None:",
            ),
            "access: an expired key is good": ("caller.record.expires_at <= now", "caller.record.expires_at <= 0"),
            "access: a record is believed for ever": (
                "if not now < until <= now + self._cache_seconds:",
                "if not until:",
            ),
            "access: unknown ids are remembered without bound": ("> _MOST_CACHED", "> 10 * _MOST_CACHED"),
            "access: a glob need only begin": ("re.compile(translate(glob))", "re.compile(translate(glob + '*'))"),
            "access: a page begins behind the first own name": ("chr(ord(prefix[-1]) - 1) + _LAST", "prefix[-1]"),
            "access: every scope opens all": ('if "admin" in record.scopes else', "if record.scopes else"),
        },
    ),
    Place(
        "service/api/middleware/access.py",
        (*laws(_LIMITS, "test_a_key_makes_as_many_requests_as_it_may"), *_CLOSED, *_FOREIGN),
        {
            "access: a new route is open to readers": ("(_READ if method == \"GET\" else _ADMIN)", "_READ"),
            "access: /v1 is another matter": (
                '    path = path.removeprefix("/v1")\n    if path.startswith("/models/"):\n        caller',
                '    if path.startswith("/models/"):\n        caller',
            ),
            "access: keys for some models open what is of all": ("    if need.every_model:", "    if not need:"),
            "access: a request too many is let through": ("    if counted.left < 0:", "    if counted.left < -1:"),
        },
    ),
    Place(
        "service/access/wrong_keys.py",
        ("tests/service/access/test_wrong_keys.py",),
        {
            "wrong keys: no window ends": ("        if ends <= now:", "        if not ends:"),
            "wrong keys: addresses without bound": ("> _MOST_ADDRESSES", "> 10**9"),
            "wrong keys: one too many": ("seen >= MOST_WRONG_KEYS", "seen > MOST_WRONG_KEYS"),
            "wrong keys: each address of a network": ("int(known) >> 64 << 64, 64", "int(known), 128"),
        },
    ),
    Place(
        "service/api/responses/problems.py",
        ("tests/service/api/test_paths.py", "tests/service/api/test_schema_fuzz.py"),
        {
            "paths: one method of several": ("for route in routes)]", "for route in routes)][:1]"),
            "problems: fields are left out": ("problem.model_dump()", "problem.model_dump(exclude_none=True)"),
        },
    ),
    Place(
        "service/api/application.py",
        ("tests/service/api/test_paths.py",),
        {"paths: slashes are redirected": ("redirect_slashes=False", "redirect_slashes=True")},
    ),
    Place(
        "service/api/resources/predictions.py",
        (*_BATCH, *_FOREIGN),
        {
            "access: predictions of any model": ('    check_model(request.model, "model")\n', ""),
            "access: predictions of any model in batches": (
                '            check_model(batch.model, "model")\n',
                "            pass\n",
            ),
            "access: a limit tells of a model": ("if batch.model in own_names():", "if True:"),
        },
    ),
    Place(
        "service/api/resources/feedback.py",
        _FOREIGN,
        {
            "access: feedback to any model": (
                '    check_model(request.prediction_id.partition(":")[0], "prediction_id")\n',
                "",
            ),
        },
    ),
    Place(
        "service/catalogue/catalogue.py",
        _LISTED,
        {
            "access: a list of all models": (" if listed.name in own]", "]"),
            "access: a cursor of another's": ("found[limit - 1].name if more", "after if more"),
        },
    ),
    Place(
        "service/rounds/webhooks.py",
        (_WEBHOOKS,),
        {
            "webhooks: any age": ("> TOLERANCE_SECONDS:", "> 10**9:"),
            "webhooks: the first secret only": ("for signer in self._signers]", "for signer in self._signers[:1]]"),
            "webhooks: bodies of unsigned ones are read": ("        if not given:\n", "        if False:\n"),
            "webhooks: no signature needed": ("            raise SignatureError(_UNSIGNED)", "            pass"),
            "webhooks: without secrets all is let in": (
                "        if not self._signers:\n",
                "        if not self._signers:\n            return\n        if not self._signers:\n",
            ),
        },
    ),
    Place(
        "service/access/key_admin.py",
        (_AUTH,),
        {
            "keys: rotation lengthens a life": (
                "now + overlap_seconds if old.expires_at is None else min(old.expires_at, now + overlap_seconds)",
                "now + overlap_seconds",
            ),
            "keys: a revoked key leaves an heir": ("            await self._table.remove(issued.id)\n", ""),
        },
    ),
    Place(
        "service/store/lua/replace_api_key.lua",
        (_AUTH,),
        {"keys: rotation brings back the revoked": ("ARGV[1]) == 0 then", "ARGV[1]) == 2 then")},
    ),
    Place(
        "service/api/middleware/in_flight.py",
        (_LIMITS,),
        {
            "limits: a place is never left": ("            self.taken -= 1", "            pass"),
            "limits: webhooks have the places of all": ("is None else self._keyed", "is False else self._keyed"),
        },
    ),
    Place(
        "service/api/middleware/body_limit.py",
        (_LIMITS,),
        {
            "limits: the wait for the end is timed": ("        if self._complete:", "        if False:"),
            "limits: bodies may be slow": ("_Body(receive, self._max_bytes, self._pace).receive", "receive"),
            "limits: any rate will do": ("        if not self.min_rate:", "        if self.min_rate:"),
        },
    ),
)  # fmt: skip
