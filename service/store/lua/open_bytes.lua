-- Prepended to scripts that sum the bytes of a model's open predictions, after the counters.
-- The model's `open_bytes` is the sum of its fields `open:<moment>`: the bytes of open blocks, booked under the moment
-- (seconds since the epoch) by which their keys have expired. Returns the sum, the fields whose moments have passed,
-- which do not count, as keys expire without a script, and the fields that count.
local function count_open(model)
  local now, sum, passed, counted = tonumber(redis.call('TIME')[1]), 0, {}, {}
  for _, field in ipairs(redis.call('HKEYS', model)) do
    local moment = string.match(field, '^open:(.*)$')
    if moment then
      local bytes = redis.call('HGET', model, field)
      if (tonumber(moment) or now) > now and is_count(bytes) then
        sum = sum + bytes
        counted[field] = bytes
      else
        passed[#passed + 1] = field
      end
    end
  end
  return sum, passed, counted
end

-- Books out what has passed, which also repairs a damaged sum. Returns the sum.
local function sweep_open(model)
  local sum, passed = count_open(model)
  -- First, because a full store refuses only the first write of a script.
  redis.call('HSET', model, 'open_bytes', string.format('%.0f', sum))
  for _, field in ipairs(passed) do
    redis.call('HDEL', model, field)
  end
  return sum
end

