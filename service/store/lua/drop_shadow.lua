#!lua flags=allow-oom
-- Removes a shadow of a model.
-- KEYS: model, shadows, then the snapshots of the slots. ARGV: incarnation, name.
-- Returns nil if the model is gone, 1 if the shadow existed, else 0.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  return false
end
local name, shadows = ARGV[2], KEYS[2]
local slot = tonumber(redis.call('HGET', shadows, name .. ':slot') or '')
if not slot then
  return 0
end
redis.call('UNLINK', KEYS[2 + slot])
redis.call('HDEL', shadows, name, name .. ':id', name .. ':slot', name .. ':since', name .. ':rounds',
  name .. ':restarts')
return 1
