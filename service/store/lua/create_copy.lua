-- Creates a model with a state, whose parts are under a temporary key, unless its name is taken. Its log begins with the
-- last change of its history.
-- KEYS: model, log, snapshot, temporary key of the parts, imports, shadows, then for each shadow: temporary key of the
--       parts, snapshot.
-- ARGV: incarnation, definition, created_at, summary, rule for closing predictions, retention in seconds, history,
--       rounds, changes, correct, partial rewards, expired, version of the change's format, the change, version of the
--       snapshot, number of parts, statistics, check, digests, digest, abstentions, bulk, number of shadows,
--       then for each shadow: name, id, the shadow (JSON), restarts, number of parts (empty: no snapshot), comparison, check;
--       then for each source of imported rounds: its name, and its position as in the key of imports. Summary, rule,
--       retention and bulk may be empty: none.
-- Returns 1 if the model now has this incarnation, 0 if another incarnation has the name, -1 if parts are missing.
local BEFORE_SHADOWS, OF_SHADOW = 23, 7
local there, shadows = redis.call('HGET', KEYS[1], 'incarnation'), {}
local whole = redis.call('HLEN', KEYS[4]) == tonumber(ARGV[16])
for i = 1, tonumber(ARGV[23]) do
  local at = BEFORE_SHADOWS + OF_SHADOW * (i - 1)
  local shadow = {coming = KEYS[5 + 2 * i], snapshot = KEYS[6 + 2 * i]}
  shadow.name, shadow.id, shadow.text, shadow.restarts, shadow.parts, shadow.tally, shadow.check =
    unpack(ARGV, at + 1, at + OF_SHADOW)
  whole = whole and (shadow.parts == '' or redis.call('HLEN', shadow.coming) == tonumber(shadow.parts))
  shadows[i] = shadow
end
if there or not whole then
  redis.call('UNLINK', KEYS[4])
  return there and (there == ARGV[1] and 1 or 0) or -1
end
redis.call('XADD', KEYS[2], ARGV[8] .. '-' .. ARGV[9], 't', 'c', 'v', ARGV[13], 'd', ARGV[14])
local function complete(coming, snapshot, tally, check)
  redis.call('HSET', coming, 'at', redis.call('TIME')[1], 'version', ARGV[15], 'rounds', ARGV[8], 'changes', ARGV[9],
    'tally', tally, 'check', check, 'digest', ARGV[20])
  redis.call('RENAME', coming, snapshot)
  redis.call('PERSIST', snapshot)
end
complete(KEYS[4], KEYS[3], ARGV[17], ARGV[18])
local since = string.format('%s-%.0f', ARGV[8], ARGV[9] - 1) -- before the first entry of the log
for slot, shadow in ipairs(shadows) do
  local name = shadow.name
  redis.call('HSET', KEYS[6], name, shadow.text, name .. ':id', shadow.id, name .. ':slot', slot,
    name .. ':since', since, name .. ':restarts', shadow.restarts)
  if shadow.parts ~= '' then
    complete(shadow.coming, shadow.snapshot, shadow.tally, shadow.check)
    redis.call('HSET', KEYS[6], name .. ':rounds', ARGV[8])
  end
end
redis.call('HSET', KEYS[1], 'incarnation', ARGV[1], 'definition', ARGV[2], 'created_at', ARGV[3], 'history', ARGV[7],
  'rounds', ARGV[8], 'predictions', ARGV[8], 'changes', ARGV[9], 'correct', ARGV[10], 'partial', ARGV[11],
  'expired', ARGV[12], 'abstained', ARGV[21], 'digests', ARGV[19], 'digest', ARGV[20])
for at, field in pairs({[4] = 'summary', [5] = 'closing', [6] = 'retention', [22] = 'bulk'}) do
  if ARGV[at] ~= '' then
    redis.call('HSET', KEYS[1], field, ARGV[at])
  end
end
for at = BEFORE_SHADOWS + OF_SHADOW * #shadows + 1, #ARGV, 2 do
  redis.call('HSET', KEYS[5], ARGV[at], ARGV[at + 1])
end
return 1
