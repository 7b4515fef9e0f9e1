-- Puts a snapshot whose parts were written elsewhere into its place if it has seen more rounds than the one there,
-- and trims the log behind it.
-- A snapshot of rounds that are not in this log, as after a fail-over that lost some, is not kept; nor is one that has
-- not heeded all recorded damage: it may have seen rounds that every other worker leaves out.
-- KEYS: model, log, snapshot, where the parts are.
-- ARGV: incarnation, rounds, when the last of them came (8 bytes; empty: not known), how many parts, rounds to retain,
--       tally, version of the record of damage that was heeded.
-- Returns nil if the model is gone, else the rounds that the snapshot now there has seen.
local model = redis.call('HMGET', KEYS[1], 'incarnation', 'damage')
if model[1] ~= ARGV[1] then
  redis.call('UNLINK', KEYS[4])
  return false
end
local present = redis.call('HMGET', KEYS[3], 'rounds', 'damaged')
local there, rounds = tonumber(not present[2] and present[1] or '0') or 0, tonumber(ARGV[2])

local function is_of_this_log()
  if ARGV[3] == '' then
    return true
  end
  local last = redis.call('XRANGE', KEYS[2], ARGV[2] .. '-0', ARGV[2] .. '-0')[1]
  return last and moment_of(last) == ARGV[3]
end

local heeded = (model[2] or '0') == ARGV[7]
if there >= rounds or not heeded or not is_of_this_log() or redis.call('HLEN', KEYS[4]) ~= tonumber(ARGV[4]) then
  redis.call('UNLINK', KEYS[4])
  return there
end
redis.call('HSET', KEYS[4], 'rounds', ARGV[2], 'tally', ARGV[6], 'at', redis.call('TIME')[1])
redis.call('UNLINK', KEYS[3])
redis.call('RENAME', KEYS[4], KEYS[3])
redis.call('PERSIST', KEYS[3])
local first = rounds - math.max(tonumber(ARGV[5]), 1) + 1 -- by its last round a reader knows the log again
if first > 1 then
  redis.call('XTRIM', KEYS[2], 'MINID', '~', string.format('%.0f-0', first))
end
return rounds
