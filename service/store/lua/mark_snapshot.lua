-- Records that a snapshot cannot be read: any other may take its place.
-- KEYS: model, snapshot, record of damage. ARGV: incarnation, rounds that the snapshot has seen (0: unreadable), why.
-- Returns nil if the model is gone, 1 if that snapshot is still there, else 0.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  return false
end
if snapshot_there(KEYS[2]).rounds ~= tonumber(ARGV[2]) then
  return 0
end
local value = cjson.encode({entry = ARGV[2], reason = ARGV[3], at = redis.call('TIME')[1]})
redis.call('HSETNX', KEYS[3], 'snapshot-' .. ARGV[2], value)
redis.pcall('HSET', KEYS[2], 'damaged', '1') -- where the key holds another type of value, that says it
return 1
