-- Stores predictions, each unless its id is in use.
-- KEYS: model, then one key each. ARGV: incarnation, milliseconds to keep, bytes of a head, then one record each.
-- Returns nil if the model is gone, else for each nil if it was stored, or the head of the record that was there.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  return false
end
local heads, stored = {}, 0
for i = 2, #KEYS do
  local there = redis.call('SET', KEYS[i], ARGV[i + 2], 'PX', ARGV[2], 'NX', 'GET')
  if there then
    heads[i - 1] = string.sub(there, 1, tonumber(ARGV[3]))
  else
    heads[i - 1] = false
    stored = stored + 1
  end
end
redis.call('HINCRBY', KEYS[1], 'predictions', stored)
return heads
