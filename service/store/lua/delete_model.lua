-- Deletes one incarnation of a model.
-- KEYS: model, log, snapshot, tally, record of damage. ARGV: incarnation.
-- Returns 1 if it was there.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  return 0
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
return 1
