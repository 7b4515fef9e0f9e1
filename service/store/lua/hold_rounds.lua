-- Keeps rounds in the log until a snapshot has seen some number of changes: see save_snapshot.lua, forget_old.lua.
-- KEYS: model, shadows. ARGV: incarnation, position before the rounds, number of changes.
-- Returns nil if the model is gone, else 1.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  return false
end
redis.call('HSET', KEYS[2], ':promotion:since', ARGV[2], ':promotion:change', ARGV[3],
  ':promotion:at', redis.call('TIME')[1])
return 1
