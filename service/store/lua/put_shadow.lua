-- Gives a model a shadow, or an existing shadow another learner. It begins with the oldest round of the log.
-- KEYS: model, log, shadows, then the snapshots of the slots.
-- ARGV: incarnation, name, id, the shadow (JSON).
-- Returns nil if the model is gone, 0 if all slots are occupied, else 1. Repeating a call changes nothing.
local model = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'changes')
if model[1] ~= ARGV[1] then
  return false
end
local name, shadows = ARGV[2], KEYS[3]
local there = redis.call('HMGET', shadows, name .. ':id', name .. ':slot')
if there[1] == ARGV[3] then
  return 1
end

local function free_slot()
  local taken, fields = {}, redis.call('HGETALL', shadows)
  for i = 1, #fields, 2 do
    if string.match(fields[i], ':slot$') then
      taken[tonumber(fields[i + 1])] = true
    end
  end
  for slot = 1, #KEYS - 3 do
    if not taken[slot] then
      return slot
    end
  end
end

local slot = tonumber(there[2]) or free_slot()
if not slot then
  return 0
end
local since = log_begin(KEYS[2], model[2] or '0', model[3] or '0')
-- First, because a full store refuses only the first write of a script.
redis.call('HSET', shadows, name, ARGV[4], name .. ':id', ARGV[3], name .. ':slot', slot, name .. ':since', since)
redis.call('UNLINK', KEYS[3 + slot])
redis.call('HDEL', shadows, name .. ':rounds', name .. ':restarts')
return 1
