-- Keeps a snapshot if it has seen more rounds than the one there, and trims the log behind it.
-- A snapshot of rounds that are not in this log, as after a fail-over that lost some, is not kept.
-- KEYS: model, log, snapshot.
-- ARGV: incarnation, rounds, when the last of them came (empty: not known), state, rounds to retain, tally.
-- Returns nil if the model is gone, else the rounds that the snapshot now there has seen.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  return false
end
local there, rounds = tonumber(redis.call('HGET', KEYS[3], 'rounds') or '0'), tonumber(ARGV[2])
if there >= rounds then
  return there
end
if ARGV[3] ~= '' then
  local last = redis.call('XRANGE', KEYS[2], ARGV[2] .. '-0', ARGV[2] .. '-0')[1]
  if not last or struct.unpack('<d', last[2][4], 2) ~= tonumber(ARGV[3]) then
    return there
  end
end
redis.call('HSET', KEYS[3], 'rounds', ARGV[2], 'state', ARGV[4], 'tally', ARGV[6], 'at', redis.call('TIME')[1])
local first = rounds - math.max(tonumber(ARGV[5]), 1) + 1 -- by its last round a reader knows the log again
if first > 1 then
  redis.call('XTRIM', KEYS[2], 'MINID', '~', string.format('%.0f-0', first))
end
return rounds
