#!lua flags=allow-oom
-- Lets a shadow begin again, with the oldest round of the log: the log has lost rounds that it needs, or its snapshot is
-- damaged.
-- KEYS: model, log, shadows, the shadow's snapshot.
-- ARGV: incarnation, name, id, the position at which it began, the rounds in its snapshot (empty: none).
-- Returns nil if the model is gone, else 1. Does nothing if it has another id, position or snapshot by now.
local model = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'changes')
if model[1] ~= ARGV[1] then
  return false
end
local name, shadows = ARGV[2], KEYS[3]
local there = redis.call('HMGET', shadows, name .. ':id', name .. ':since', name .. ':rounds')
if there[1] == ARGV[3] and there[2] == ARGV[4] and (there[3] or '') == ARGV[5] then
  redis.call('UNLINK', KEYS[4])
  redis.call('HDEL', shadows, name .. ':rounds')
  redis.call('HSET', shadows, name .. ':since', log_begin(KEYS[2], model[2] or '0', model[3] or '0'))
  redis.call('HINCRBY', shadows, name .. ':restarts', 1)
end
return 1
