-- Keeps a snapshot, whose parts are under a temporary key, under an id.
-- As in save_snapshot.lua, the snapshot must be of this log and account for all recorded damage.
-- KEYS: model, log, list of kept snapshots, temporary key of the parts, the kept snapshot.
-- ARGV: incarnation, version of the format, rounds, changes, mark of the last entry (empty: unknown), number of parts,
--       statistics, version of the damage record taken into account, check, id, note (JSON), most kept snapshots,
--       digest of the history up to these changes (empty: unknown).
-- Returns nil if the model is gone, else what became of it: `service.store.values.Keeping`.
local model = redis.call('HMGET', KEYS[1], 'incarnation', 'damage', 'digests')
local function ended(result)
  redis.call('UNLINK', KEYS[4])
  return result
end
if model[1] ~= ARGV[1] then
  return ended(false)
end
if redis.call('HEXISTS', KEYS[3], ARGV[10]) == 1 then
  return ended('there')
end
if redis.call('HLEN', KEYS[3]) >= tonumber(ARGV[12]) then
  return ended('full')
end

local function is_of_this_log()
  if ARGV[13] ~= '' and string.sub(model[3] or '', 8 * ARGV[4] + 1, 8 * ARGV[4] + 8) ~= ARGV[13] then
    return false
  end
  if ARGV[5] == '' then
    return true
  end
  local id = ARGV[3] .. '-' .. ARGV[4]
  local last = redis.call('XRANGE', KEYS[2], id, id)[1]
  return last and mark_of(last) == ARGV[5]
end

if (model[2] or '0') ~= ARGV[8] or not is_of_this_log() or redis.call('HLEN', KEYS[4]) ~= tonumber(ARGV[6]) then
  return ended('stale')
end
local fields = {'version', ARGV[2], 'rounds', ARGV[3], 'changes', ARGV[4], 'tally', ARGV[7], 'check', ARGV[9],
  'digest', ARGV[13]}
redis.call('HSET', KEYS[4], 'at', redis.call('TIME')[1], unpack(fields))
redis.call('RENAME', KEYS[4], KEYS[5])
redis.call('PERSIST', KEYS[5])
redis.call('HSET', KEYS[3], ARGV[10], ARGV[11])
return 'done'
