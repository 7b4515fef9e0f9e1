-- Creates a model with a state, whose parts are under a temporary key, unless its name is taken. Its log begins with the
-- last change of its history.
-- KEYS: model, log, snapshot, temporary key of the parts, imports.
-- ARGV: incarnation, definition, created_at, summary, rule for closing predictions, retention in seconds, history,
--       rounds, changes, correct, partial rewards, expired, version of the change's format, the change, version of the
--       snapshot, number of parts, statistics, check, digests, digest, then for each source of imported rounds: its name, and
--       its position as in the key of imports. Summary, rule and retention may be empty: none.
-- Returns 1 if the model now has this incarnation, 0 if another incarnation has the name, -1 if parts are missing.
local there = redis.call('HGET', KEYS[1], 'incarnation')
if there or redis.call('HLEN', KEYS[4]) ~= tonumber(ARGV[16]) then
  redis.call('UNLINK', KEYS[4])
  return there and (there == ARGV[1] and 1 or 0) or -1
end
redis.call('XADD', KEYS[2], ARGV[8] .. '-' .. ARGV[9], 't', 'c', 'v', ARGV[13], 'd', ARGV[14])
local fields = {'version', ARGV[15], 'rounds', ARGV[8], 'changes', ARGV[9], 'tally', ARGV[17], 'check', ARGV[18],
  'digest', ARGV[20]}
redis.call('HSET', KEYS[4], 'at', redis.call('TIME')[1], unpack(fields))
redis.call('RENAME', KEYS[4], KEYS[3])
redis.call('PERSIST', KEYS[3])
redis.call('HSET', KEYS[1], 'incarnation', ARGV[1], 'definition', ARGV[2], 'created_at', ARGV[3], 'history', ARGV[7],
  'rounds', ARGV[8], 'predictions', ARGV[8], 'changes', ARGV[9], 'correct', ARGV[10], 'partial', ARGV[11],
  'expired', ARGV[12], 'digests', ARGV[19], 'digest', ARGV[20])
for at, field in pairs({[4] = 'summary', [5] = 'closing', [6] = 'retention'}) do
  if ARGV[at] ~= '' then
    redis.call('HSET', KEYS[1], field, ARGV[at])
  end
end
for at = 21, #ARGV, 2 do
  redis.call('HSET', KEYS[5], ARGV[at], ARGV[at + 1])
end
return 1
