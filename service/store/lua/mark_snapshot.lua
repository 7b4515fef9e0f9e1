#!lua flags=allow-oom
-- Records that a snapshot cannot be read, so that any other may replace it.
-- KEYS: model, snapshot, damage record. ARGV: incarnation, rounds in the snapshot (0: unreadable), reason.
-- Returns nil if the model is gone, 1 if this snapshot is still stored, else 0.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  return false
end
if snapshot_there(KEYS[2]).rounds ~= tonumber(ARGV[2]) then
  return 0
end
local value = cjson.encode({entry = ARGV[2], reason = ARGV[3], at = redis.call('TIME')[1]})
redis.call('HSETNX', KEYS[3], 'snapshot-' .. ARGV[2], value)
redis.pcall('HSET', KEYS[2], 'damaged', '1') -- fails if the key holds another type, which counts as damaged
return 1
