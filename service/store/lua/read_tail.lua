-- Reads the rounds from a given one on.
-- KEYS: model, log. ARGV: incarnation, the first, limit.
-- Returns nil if the model is gone, else {rounds in all, entries, version of the record of damage}: as many entries as
-- hold `limit` rounds, the last may hold more.
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'damage')
if there[1] ~= ARGV[1] then
  return false
end
local from = ARGV[2] .. '-0'
local nearest = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', 1)[1]
if not nearest then
  return {there[2], {}, there[3] or '0'}
end
local last, rounds = tonumber(string.match(nearest[1], '^%d+')), rounds_of(nearest)
local begin = rounds and #rounds >= 21 and struct.unpack('<i8', rounds, 14) or last
-- Those before may be trimmed. The number may be damaged: the id of the entry bounds it.
local first = math.max(tonumber(ARGV[2]), math.min(begin, last))
local upto = string.format('%.0f-0', first + tonumber(ARGV[3]) - 1)
return {there[2], read_entries(KEYS[2], from, upto), there[3] or '0'}
