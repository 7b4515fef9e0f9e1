#!lua flags=allow-oom
-- Drops a kept snapshot, unless the log has a change that needs it.
-- KEYS: model, log, list of kept snapshots, the kept snapshot.
-- ARGV: incarnation, id, digest of the history that the caller has read, the last change in it that names the snapshot
--       (0: none).
-- Returns nil if the model is gone, else what became of it: `service.store.values.Keeping`.
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'digest')
if there[1] ~= ARGV[1] then
  return false
end
if redis.call('HEXISTS', KEYS[3], ARGV[2]) == 0 then
  return 'absent'
end
if there[2] ~= ARGV[3] then
  return 'stale'
end
local first = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
-- The id of an entry has the number of changes up to and including it. A fold from the first entry on makes the change
-- of that number only if the entry is this change.
local made = first and tonumber(string.match(first[1], '%-(%d+)$')) or 0
if first and first[2][2] == 'c' then
  made = made - 1
end
if tonumber(ARGV[4]) > made then
  return 'needed'
end
redis.call('UNLINK', KEYS[4])
redis.call('HDEL', KEYS[3], ARGV[2])
return 'done'
