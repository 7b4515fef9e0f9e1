-- Keeps a snapshot if it has seen more rounds than the one there, and trims the log behind it.
-- KEYS: model, log, snapshot. ARGV: incarnation, rounds, state, rounds to retain.
-- Returns nil if the model is gone, else the rounds that the snapshot now there has seen.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  return false
end
local there, rounds = tonumber(redis.call('HGET', KEYS[3], 'rounds') or '0'), tonumber(ARGV[2])
if there >= rounds then
  return there
end
redis.call('HSET', KEYS[3], 'rounds', ARGV[2], 'state', ARGV[3])
local first = rounds - tonumber(ARGV[4]) + 1
if first > 1 then
  redis.call('XTRIM', KEYS[2], 'MINID', '~', string.format('%.0f-0', first))
end
return rounds
