-- Keeps a tally if it has counted more rounds than the one there, and notes how many predictions there are by now.
-- KEYS: model, tally. ARGV: incarnation, rounds, tally, the present slot of time, the oldest slot of use.
-- Returns nil if the model is gone, else the rounds that the tally now there has counted.
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'predictions')
if there[1] ~= ARGV[1] then
  return false
end
local counted, slot = tonumber(redis.call('HGET', KEYS[2], 'rounds') or '-1'), 's:' .. ARGV[4]
if counted < tonumber(ARGV[2]) then
  counted = tonumber(ARGV[2])
  redis.call('HSET', KEYS[2], 'rounds', ARGV[2], 'tally', ARGV[3])
end
if redis.call('HSET', KEYS[2], slot, there[2]) == 0 then
  return counted
end
-- A new slot: of those too old, only the newest is of use, as the number from which one counts.
local oldest, base, old = tonumber(ARGV[5]), nil, {}
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
  local number = tonumber(string.match(field, '^s:(%d+)$'))
  if number and number < oldest then
    old[#old + 1] = field
    base = math.max(base or number, number)
  end
end
for _, field in ipairs(old) do
  if field ~= 's:' .. string.format('%.0f', base) then
    redis.call('HDEL', KEYS[2], field)
  end
end
return counted
