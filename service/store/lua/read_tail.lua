-- Reads the rounds from a given one on.
-- KEYS: model, log. ARGV: incarnation, the first, limit.
-- Returns nil if the model is gone, else {rounds in all, entries}: as many as hold `limit` rounds, the last may hold more.
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds')
if there[1] ~= ARGV[1] then
  return false
end
local from = ARGV[2] .. '-0'
local nearest = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', 1)[1]
if not nearest then
  return {there[2], {}}
end
local first = math.max(tonumber(ARGV[2]), (struct.unpack('<i8', nearest[2][4], 14))) -- those before may be trimmed
local upto = string.format('%.0f-0', first + tonumber(ARGV[3]) - 1)
return {there[2], read_entries(KEYS[2], from, upto)}
