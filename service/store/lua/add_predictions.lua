-- Stores blocks of predictions, each unless its id is in use, provided that whoever made them had seen every round.
-- KEYS: model, log, then one block each.
-- ARGV: incarnation, rounds seen (-1: it does not matter), when the last of them came (8 bytes; empty: not known),
--       whether there may be newer ones (1/0), most rounds to return, version of the record of damage that was heeded,
--       milliseconds to keep, then one record each.
-- Returns nil if the model is gone; {rounds in all, entries from the last seen on, version of the record of damage} if
-- others were seen than there are; else {false, heads}: for each nil if it was stored, or the record that was there,
-- without bodies.
-- Formats: service/store/records/records.py.
local HEAD, HEAD_BYTES = '<BI4I4I4', 45
local BEFORE_RECORDS = 7
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'last_at', 'damage')
if there[1] ~= ARGV[1] then
  return false
end
if not string.match(there[2] or '', '^%d+$') or #there[2] > 15 then
  return redis.error_reply('CORRUPT the number of its rounds is damaged')
end
local seen, rounds, damage = tonumber(ARGV[2]), tonumber(there[2]), there[4] or '0'

-- Whether the last round seen is in the log. Its moment may be damaged there: then it is not the model's.
local function is_in_log()
  local last = redis.call('XRANGE', KEYS[2], ARGV[2] .. '-0', ARGV[2] .. '-0')[1]
  return seen == 0 or (last and (ARGV[3] == '' or moment_of(last) == ARGV[3]))
end

local function is_of_this_log()
  if damage ~= ARGV[6] then
    return false
  end
  if seen == rounds then
    local last_at = tonumber(there[3] or '')
    return ARGV[3] == '' or (last_at and struct.pack('<d', last_at) == ARGV[3]) or is_in_log()
  end
  return ARGV[4] == '1' and is_in_log()
end

for i = 3, #KEYS do
  if #ARGV[i + BEFORE_RECORDS - 2] < HEAD_BYTES then
    return redis.error_reply('a record of predictions is cut short')
  end
end
if seen >= 0 and not is_of_this_log() then
  local from, upto = ARGV[2] .. '-0', string.format('%.0f-0', seen + tonumber(ARGV[5]))
  return {there[2], read_entries(KEYS[2], from, upto), damage}
end
local heads, stored = {}, 0
for i = 3, #KEYS do
  local made = ARGV[i + BEFORE_RECORDS - 2]
  local _, n = struct.unpack(HEAD, made)
  local record = redis.call('SET', KEYS[i], made, 'PX', ARGV[7], 'NX', 'GET')
  if not record then
    heads[i - 2], stored = false, stored + n
  elseif #record < HEAD_BYTES then -- damaged: its reader reports it
    heads[i - 2] = record
  else
    local _, others, _, answer_bytes = struct.unpack(HEAD, record)
    heads[i - 2] = string.sub(record, 1, math.min(#record, HEAD_BYTES + others * (41 + 2 * answer_bytes)))
  end
end
redis.pcall('HINCRBY', KEYS[1], 'predictions', stored) -- a damaged counter stops nothing
return {false, heads}
