#!lua flags=allow-oom
-- Appends a change to the log and to the history of a model.
-- KEYS: model, log, list of kept snapshots.
-- ARGV: incarnation, digests of the history before and after the change, version of the change's format, the change
--       (JSON without newlines), summary, then as in create_model.lua the rule for closing predictions and the
--       retention, the rule for a model that no longer closes predictions, because some may be open, and bulk.
-- Returns nil if the model is gone, 1 if the change is the model's last one now, 0 if another change came first, 2 if
-- the change names a kept snapshot that the model does not have.
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'changes', 'history', 'digest', 'digests')
if there[1] ~= ARGV[1] then
  return false
end
local changes, history = there[3] or '0', there[4] or ''
if not is_count(there[2] or '') or not is_count(changes) then
  return redis.error_reply('CORRUPT the number of its rounds or changes is damaged')
end
if there[5] ~= ARGV[2] then
  return there[5] == ARGV[3] and 1 or 0 -- a repeated call finds its own change
end
local read, change = pcall(cjson.decode, ARGV[5])
local state = read and type(change) == 'table' and change.state
if type(state) == 'table' and redis.call('HEXISTS', KEYS[3], tostring(state.snapshot)) == 0 then
  return 2
end
if not ends_log(KEYS[2], there[2], changes) then
  return redis.error_reply('CORRUPT the log does not end with round ' .. there[2])
end
local number = string.format('%.0f', tonumber(changes) + 1)
redis.call('XADD', KEYS[2], there[2] .. '-' .. number, 't', 'c', 'v', ARGV[4], 'd', ARGV[5])
redis.call('HSET', KEYS[1], 'changes', number, 'history', history .. ARGV[5] .. '\n', 'summary', ARGV[6],
  'digest', ARGV[3], 'digests', (there[6] or '') .. ARGV[3])
local closing = ARGV[7]
if closing == '' and redis.call('HEXISTS', KEYS[1], 'closing') == 1 then
  closing = ARGV[9]
end
for field, value in pairs({closing = closing, retention = ARGV[8], bulk = ARGV[10]}) do
  if value == '' then
    redis.call('HDEL', KEYS[1], field)
  else
    redis.call('HSET', KEYS[1], field, value)
  end
end
return 1
