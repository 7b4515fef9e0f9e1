#!lua flags=allow-oom
-- Completes a snapshot with parts under a temporary key: replaces the stored one if it has fewer rounds or changes, and
-- trims the log before the new one.
-- Refuses a snapshot with rounds that are not in this log, for example after a fail-over that lost rounds. Also refuses
-- one that does not account for all recorded damage: it may include rounds that every other worker leaves out. A stored
-- snapshot of a newer version stays until a worker that can read it replaces it, or records that it is damaged.
-- KEYS: model, log, snapshot, temporary key of the parts, shadows.
-- ARGV: incarnation, version of the format, rounds, changes, moment of the last round (8 bytes; empty: unknown), number
--       of parts, rounds to retain, statistics, version of the damage record taken into account, check, most rounds
--       to keep for shadows that have not folded them, digest of the history up to these changes (empty: unknown).
-- Returns nil if the model is gone, else the rounds in the snapshot that is now stored.
local model = redis.call('HMGET', KEYS[1], 'incarnation', 'damage', 'digests')
if model[1] ~= ARGV[1] then
  redis.call('UNLINK', KEYS[4])
  return false
end
local there, version, rounds, changes = snapshot_there(KEYS[3]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local function is_ahead()
  if not there.sound then
    return true
  end
  return there.version <= version
    and (there.rounds < rounds or (there.rounds == rounds and there.changes < changes))
end

local function is_of_this_log()
  if ARGV[12] ~= '' and string.sub(model[3] or '', 8 * changes + 1, 8 * changes + 8) ~= ARGV[12] then
    return false
  end
  if ARGV[5] == '' then
    return true
  end
  local id = ARGV[3] .. '-' .. ARGV[4]
  local last = redis.call('XRANGE', KEYS[2], id, id)[1]
  return last and mark_of(last) == ARGV[5]
end

local heeded = (model[2] or '0') == ARGV[9]
if not is_ahead() or not heeded or not is_of_this_log() or redis.call('HLEN', KEYS[4]) ~= tonumber(ARGV[6]) then
  redis.call('UNLINK', KEYS[4])
  return there.sound and there.rounds or 0
end
local fields = {'version', ARGV[2], 'rounds', ARGV[3], 'changes', ARGV[4], 'tally', ARGV[8], 'check', ARGV[10],
  'digest', ARGV[12]}
redis.call('HSET', KEYS[4], 'at', redis.call('TIME')[1], unpack(fields))
redis.call('UNLINK', KEYS[3])
redis.call('RENAME', KEYS[4], KEYS[3])
redis.call('PERSIST', KEYS[3])
-- The last round of the snapshot always stays in the log, so that a reader can recognize the log. Later changes follow
-- it, so they stay as well.
-- A promotion holds the rounds that its change folds again until a snapshot has the change.
local promoted = tonumber(redis.call('HGET', KEYS[5], ':promotion:change') or '')
if promoted and changes >= promoted then
  redis.call('HDEL', KEYS[5], ':promotion:change', ':promotion:since', ':promotion:at')
end
local first = rounds - math.max(tonumber(ARGV[7]), 1) + 1
for _, folded in ipairs(shadow_rounds(KEYS[5])) do
  first = math.min(first, math.max(folded, rounds - tonumber(ARGV[11]) + 1))
end
if first > 1 then
  redis.call('XTRIM', KEYS[2], 'MINID', '~', string.format('%.0f-0', first))
end
return rounds
