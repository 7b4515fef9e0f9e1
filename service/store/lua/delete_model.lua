-- Deletes one incarnation of a model. Without an incarnation, deletes a damaged value at the model's key.
-- KEYS: model, log, snapshot, statistics, damage record, deadlines, imports. ARGV: incarnation (empty: none).
-- Returns 1 if it existed, else 0.
local there = redis.pcall('HGET', KEYS[1], 'incarnation')
if ARGV[1] == '' and (not there or type(there) == 'table') then
  return redis.call('UNLINK', KEYS[1])
end
if there ~= ARGV[1] then
  return 0
end
redis.call('UNLINK', unpack(KEYS))
return 1
