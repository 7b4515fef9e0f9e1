-- Completes the snapshot of a shadow, as save_snapshot.lua does for the model itself. Trims nothing.
-- KEYS: model, log, shadows, the shadow's snapshot, temporary key of the parts.
-- ARGV: incarnation, name, id, version of the format, rounds, changes, moment of the last round (8 bytes; empty:
--       unknown), number of parts, comparison, version of the damage record taken into account, check,
--       digest of the history up to these changes (empty: unknown).
-- Returns nil if the model is gone, -1 if the shadow is gone or has another learner by now, else the rounds in the
-- snapshot that is now stored.
local model = redis.call('HMGET', KEYS[1], 'incarnation', 'damage', 'digests')
local is_there = model[1] == ARGV[1] and redis.call('HGET', KEYS[3], ARGV[2] .. ':id') == ARGV[3]
if not is_there then
  redis.call('UNLINK', KEYS[5])
  return model[1] == ARGV[1] and -1
end
local there, version, rounds, changes = snapshot_there(KEYS[4]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

local function is_ahead()
  return not there.sound or there.version <= version
    and (there.rounds < rounds or (there.rounds == rounds and there.changes < changes))
end

local function is_of_this_log()
  if ARGV[12] ~= '' and string.sub(model[3] or '', 8 * changes + 1, 8 * changes + 8) ~= ARGV[12] then
    return false
  end
  if ARGV[7] == '' then
    return true
  end
  local id = ARGV[5] .. '-' .. ARGV[6]
  local last = redis.call('XRANGE', KEYS[2], id, id)[1]
  return last and mark_of(last) == ARGV[7]
end

local heeded = (model[2] or '0') == ARGV[10]
if not is_ahead() or not heeded or not is_of_this_log() or redis.call('HLEN', KEYS[5]) ~= tonumber(ARGV[8]) then
  redis.call('UNLINK', KEYS[5])
  return there.sound and there.rounds or 0
end
local fields = {'version', ARGV[4], 'rounds', ARGV[5], 'changes', ARGV[6], 'tally', ARGV[9], 'check', ARGV[11],
  'digest', ARGV[12]}
redis.call('HSET', KEYS[5], 'at', redis.call('TIME')[1], unpack(fields))
redis.call('UNLINK', KEYS[4])
redis.call('RENAME', KEYS[5], KEYS[4])
redis.call('PERSIST', KEYS[4])
redis.call('HSET', KEYS[3], ARGV[2] .. ':rounds', ARGV[5])
return rounds
