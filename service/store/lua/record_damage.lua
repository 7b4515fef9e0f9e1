#!lua flags=allow-oom
-- Records unreadable rounds, so that every worker leaves out the same ones.
-- KEYS: model, snapshot, damage record.
-- ARGV: incarnation, then for each range of rounds: the first, the last, the entry that contains it, the reason.
-- Returns nil if the model is gone; -1, recording nothing, if the snapshot includes one of the rounds, because workers
-- then start from the snapshot; else the version of the damage record, which changes with each new range.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  return false
end
local snapshot = snapshot_there(KEYS[2])
local seen = snapshot.sound and snapshot.rounds or 0
for i = 2, #ARGV, 4 do
  if tonumber(ARGV[i]) <= seen then
    return -1
  end
end
local at, added = redis.call('TIME')[1], 0
for i = 2, #ARGV, 4 do
  local value = cjson.encode({entry = ARGV[i + 2], reason = ARGV[i + 3], at = at})
  if redis.call('HSETNX', KEYS[3], ARGV[i] .. '-' .. ARGV[i + 1], value) == 1 then
    added = added + ARGV[i + 1] - ARGV[i] + 1
  end
end
if added == 0 then
  return tonumber(redis.call('HGET', KEYS[1], 'damage') or '0')
end
redis.call('HINCRBY', KEYS[1], 'damaged', added)
return redis.call('HINCRBY', KEYS[1], 'damage', 1)
