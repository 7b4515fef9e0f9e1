-- Creates a model unless its name is taken.
-- KEYS: model. ARGV: incarnation, definition, created_at, digest, summary, rule for closing predictions, retention in
--       seconds, bulk. Each of the last four may be empty: none.
-- Returns 1 if the model now has this incarnation, 0 if another incarnation has the name.
local there = redis.call('HGET', KEYS[1], 'incarnation')
if there then
  return there == ARGV[1] and 1 or 0
end
redis.call('HSET', KEYS[1], 'incarnation', ARGV[1], 'definition', ARGV[2], 'created_at', ARGV[3],
  'digest', ARGV[4], 'digests', ARGV[4], 'rounds', 0, 'predictions', 0, 'correct', 0)
for at, field in pairs({[5] = 'summary', [6] = 'closing', [7] = 'retention', [8] = 'bulk'}) do
  if ARGV[at] ~= '' then
    redis.call('HSET', KEYS[1], field, ARGV[at])
  end
end
return 1
