-- Prepended to scripts that sum the bytes of a model's open predictions, after the counters.
-- The model's `open_bytes` is the sum of its fields `open:<moment>`: the bytes of open blocks, booked under the moment
-- (seconds since the epoch) by which their keys have expired. Keys expire without a script, so moments that have passed
-- are booked out here. This also repairs a damaged sum. Returns the sum.
local function sweep_open(model)
  local now, sum, passed = tonumber(redis.call('TIME')[1]), 0, {}
  for _, field in ipairs(redis.call('HKEYS', model)) do
    local moment = string.match(field, '^open:(.*)$')
    if moment then
      local bytes = redis.call('HGET', model, field)
      if (tonumber(moment) or now) > now and is_count(bytes) then
        sum = sum + bytes
      else
        passed[#passed + 1] = field
      end
    end
  end
  -- First, because a full store refuses only the first write of a script; and only what is new, because each key with a
  -- budget of open bytes asks once a second.
  local counted = string.format('%.0f', sum)
  if redis.call('HGET', model, 'open_bytes') ~= counted then
    redis.call('HSET', model, 'open_bytes', counted)
  end
  for _, field in ipairs(passed) do
    redis.call('HDEL', model, field)
  end
  return sum
end

