-- Reads the rounds behind a given one.
-- KEYS: model, log. ARGV: incarnation, after, limit.
-- Returns nil if the model is gone, else {rounds in all, entries}.
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds')
if there[1] ~= ARGV[1] then
  return false
end
if tonumber(there[2]) <= tonumber(ARGV[2]) then
  return {there[2], {}}
end
return {there[2], redis.call('XRANGE', KEYS[2], '(' .. ARGV[2] .. '-0', '+', 'COUNT', ARGV[3])}
