#!lua flags=allow-oom
-- Deletes one incarnation of a model. Its predictions stay, and their open bytes count until they are erased. Without an
-- incarnation, deletes a damaged value at the model's key.
-- KEYS: model, its other keys except those of predictions, the list of kept snapshots as the 13th, then each of these;
--       the key that counts the open bytes of the deleted incarnation.
-- ARGV: incarnation (empty: none), digest of the history that it must have (empty: any), then the ids of the kept
-- snapshots.
-- Returns when it was deleted (seconds since the epoch, as text), or 1 without an incarnation; 3 if other snapshots are
-- kept; 0 if it did not exist.
local BEFORE_KEPT = 13
local LONGEST_SECONDS = 4e7 -- longer than any prediction is kept, whatever a damaged field says
local deleted, kept_count = KEYS[#KEYS], #KEYS - BEFORE_KEPT - 1
local there = redis.pcall('HGET', KEYS[1], 'incarnation')
if ARGV[1] == '' and (not there or type(there) == 'table') then
  return redis.call('UNLINK', KEYS[1])
end
if there ~= ARGV[1] or (ARGV[2] ~= '' and redis.call('HGET', KEYS[1], 'digest') ~= ARGV[2]) then
  return 0
end
local kept = redis.pcall('HLEN', KEYS[BEFORE_KEPT])
if type(kept) == 'number' and kept ~= kept_count then
  return 3
end
for i = 3, #ARGV do
  if redis.call('HEXISTS', KEYS[BEFORE_KEPT], ARGV[i]) == 0 then
    return 3
  end
end
local now, _, _, open = redis.call('TIME')[1], count_open(KEYS[1])
redis.call('UNLINK', unpack(KEYS))
local last = 0
for field, bytes in pairs(open) do
  redis.call('HSET', deleted, field, bytes)
  last = math.max(last, tonumber((string.gsub(field, '^open:', ''))))
end
if last > 0 then
  redis.call('EXPIRE', deleted, string.format('%.0f', math.min(last - now, LONGEST_SECONDS)))
end
return now
