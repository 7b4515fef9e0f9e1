-- Stores blocks of predictions, each unless its id is in use, provided that whoever made them had seen every round.
-- KEYS: model, log, then one block each.
-- ARGV: incarnation, rounds seen (-1: it does not matter), when the last of them came (empty: not known),
--       whether there may be newer ones (1/0), most rounds to return, milliseconds to keep, then one record each.
-- Returns nil if the model is gone; {rounds in all, entries from the last seen on} if others were seen than there are;
-- else {false, heads}: for each nil if it was stored, or the record that was there, without bodies.
-- Formats: service/store/records.py.
local HEAD, HEAD_BYTES = '<BI4I4I4', 45
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'last_at')
if there[1] ~= ARGV[1] then
  return false
end
local seen, rounds = tonumber(ARGV[2]), tonumber(there[2])

local function is_of_this_log()
  if seen == rounds then
    return ARGV[3] == '' or ARGV[3] == there[3]
  end
  if ARGV[4] ~= '1' then
    return false
  end
  local last = redis.call('XRANGE', KEYS[2], ARGV[2] .. '-0', ARGV[2] .. '-0')[1]
  return seen == 0 or (last and (ARGV[3] == '' or struct.unpack('<d', last[2][4], 6) == tonumber(ARGV[3])))
end

if seen >= 0 and not is_of_this_log() then
  local from, upto = ARGV[2] .. '-0', string.format('%.0f-0', seen + tonumber(ARGV[5]))
  return {there[2], read_entries(KEYS[2], from, upto)}
end
local heads, stored = {}, 0
for i = 3, #KEYS do
  local _, n = struct.unpack(HEAD, ARGV[i + 4])
  local record = redis.call('SET', KEYS[i], ARGV[i + 4], 'PX', ARGV[6], 'NX', 'GET')
  if record then
    local _, others, _, answer_bytes = struct.unpack(HEAD, record)
    heads[i - 2] = string.sub(record, 1, HEAD_BYTES + others * (41 + 2 * answer_bytes))
  else
    heads[i - 2], stored = false, stored + n
  end
end
redis.call('HINCRBY', KEYS[1], 'predictions', stored)
return {false, heads}
