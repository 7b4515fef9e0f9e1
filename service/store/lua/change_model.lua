#!lua flags=allow-oom
-- Appends a change to the log and to the history of a model.
-- KEYS: model, log, list of kept snapshots.
-- ARGV: incarnation, changes before this one, version of the change's format, the change (JSON without newlines),
--       summary, then as in create_model.lua the rule for closing predictions and the retention, and the rule for a
--       model that no longer closes predictions, because some may be open.
-- Returns nil if the model is gone, 1 if the change is the model's last one now, 0 if another change came first, 2 if
-- the change names a kept snapshot that the model does not have.
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'changes', 'history')
if there[1] ~= ARGV[1] then
  return false
end
local changes, history = there[3] or '0', there[4] or ''
if not is_count(there[2] or '') or not is_count(changes) then
  return redis.error_reply('CORRUPT the number of its rounds or changes is damaged')
end
local line = ARGV[4] .. '\n'
if changes ~= ARGV[2] then -- a repeated call finds its own change
  local last = string.sub('\n' .. history, -#line - 1)
  return tonumber(changes) == tonumber(ARGV[2]) + 1 and last == '\n' .. line and 1 or 0
end
local read, change = pcall(cjson.decode, ARGV[4])
local state = read and type(change) == 'table' and change.state
if type(state) == 'table' and redis.call('HEXISTS', KEYS[3], tostring(state.snapshot)) == 0 then
  return 2
end
if not ends_log(KEYS[2], there[2], changes) then
  return redis.error_reply('CORRUPT the log does not end with round ' .. there[2])
end
local number = string.format('%.0f', tonumber(changes) + 1)
redis.call('XADD', KEYS[2], there[2] .. '-' .. number, 't', 'c', 'v', ARGV[3], 'd', ARGV[4])
redis.call('HSET', KEYS[1], 'changes', number, 'history', history .. line, 'summary', ARGV[5])
local closing = ARGV[6]
if closing == '' and redis.call('HEXISTS', KEYS[1], 'closing') == 1 then
  closing = ARGV[8]
end
for field, value in pairs({closing = closing, retention = ARGV[7]}) do
  if value == '' then
    redis.call('HDEL', KEYS[1], field)
  else
    redis.call('HSET', KEYS[1], field, value)
  end
end
return 1
