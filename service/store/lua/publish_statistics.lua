#!lua flags=allow-oom
-- Stores statistics if they count more rounds than the stored ones, with the learner's warnings and the overview in
-- the model's hash; and the current number of predictions. Books out the open predictions that have expired.
-- Stored statistics of a newer version are never replaced.
-- KEYS: model, statistics.
-- ARGV: incarnation, rounds, statistics, current time slot, oldest useful time slot, version of the statistics,
-- the learner's warnings, the overview.
-- Returns nil if the model is gone, else the rounds in the statistics that are now stored.
local model = redis.call('HMGET', KEYS[1], 'incarnation', 'predictions', 'warnings')
if model[1] ~= ARGV[1] then
  return false
end
sweep_open(KEYS[1])
local there = redis.call('HMGET', KEYS[2], 'rounds', 'version')
local counted, slot = tonumber(there[1] or '-1'), 's:' .. ARGV[4]
if counted < tonumber(ARGV[2]) and tonumber(there[2] or '0') <= tonumber(ARGV[6]) then
  counted = tonumber(ARGV[2])
  redis.call('HSET', KEYS[2], 'rounds', ARGV[2], 'tally', ARGV[3], 'version', ARGV[6])
  redis.call('HSET', KEYS[1], 'overview', ARGV[8])
  if (model[3] or '[]') ~= ARGV[7] then
    redis.call('HSET', KEYS[1], 'warnings', ARGV[7])
  end
end
if redis.call('HSET', KEYS[2], slot, model[2]) == 0 then
  return counted
end
-- In a new slot, drop the slots that are too old, except the newest of them, the baseline for later totals.
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
