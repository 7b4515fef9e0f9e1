-- Stores blocks of predictions, except those with an id in use, if they account for every round and every change.
-- KEYS: model, log, deadlines, then the blocks.
-- ARGV: incarnation, rounds seen (-1: skip the check), changes seen, moment of the last round seen (8 bytes; empty:
--       unknown), whether newer rounds are allowed (1/0), most rounds to return, version of the damage record taken
--       into account, time to live in milliseconds, then the record of each block.
-- Returns nil if the model is gone. If the log does not match what was seen: {total rounds, entries from the last one
-- seen on, version of the damage record, total changes}. Otherwise {false, heads}: for each block false if it was
-- stored, or the record already stored, without bodies.
-- Layouts: service/store/records/layout.py.
local BEFORE_KEYS, BEFORE_RECORDS = 3, 8
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'changes', 'last_at', 'damage', 'closing')
if there[1] ~= ARGV[1] then
  return false
end
if not is_count(there[2] or '') or not is_count(there[3] or '0') then
  return redis.error_reply('CORRUPT the number of its rounds or changes is damaged')
end
local seen, rounds, damage = tonumber(ARGV[2]), tonumber(there[2]), there[5] or '0'
local changes_seen, changes = tonumber(ARGV[3]), tonumber(there[3] or '0')
local last_seen = ARGV[2] .. '-' .. ARGV[3]

-- Returns whether the last entry seen is in the log. A damaged moment of the entry differs from the model's `last_at`,
-- so the caller accepts a match with either one.
local function is_in_log()
  local last = redis.call('XRANGE', KEYS[2], last_seen, last_seen)[1]
  return (seen == 0 and changes_seen == 0) or (last and (ARGV[4] == '' or mark_of(last) == ARGV[4]))
end

local function is_of_this_log()
  if damage ~= ARGV[7] then
    return false
  end
  if changes_seen ~= changes then -- newer rounds may be allowed, newer changes never
    return false
  end
  if seen == rounds then
    local last_at = tonumber(there[4] or '')
    return ARGV[4] == '' or (last_at and struct.pack('<d', last_at) == ARGV[4]) or is_in_log()
  end
  return ARGV[5] == '1' and is_in_log()
end

for i = BEFORE_KEYS + 1, #KEYS do
  if #ARGV[i + BEFORE_RECORDS - BEFORE_KEYS] < HEAD_BYTES then
    return redis.error_reply('a record of predictions is cut short')
  end
end
if seen >= 0 and not is_of_this_log() then
  local entries = read_entries(KEYS[2], last_seen, seen + tonumber(ARGV[6]))
  return {there[2], entries, damage, there[3] or '0'}
end

-- Returns a record without bodies; if it has an unknown version or is truncated, enough for its reader to detect that.
local function head_of(record)
  local size = HEAD_BYTES
  if #record >= HEAD_BYTES and string.byte(record) == VERSION then
    local _, n, _, answer_bytes = struct.unpack(HEAD, record)
    size = HEAD_BYTES + CHECK_BYTES + OPEN_COUNT_BYTES + n * (PREDICTION_BYTES + OUTCOME_BYTES + 2 * answer_bytes)
  end
  return string.sub(record, 1, math.min(#record, size))
end

-- Names the block in the deadlines of a model that closes predictions; returns whether it was not there.
local function note_deadline(key, expires_at)
  local id = string.sub(key, #KEYS[3] - #'deadlines' + #'p:' + 1)
  return redis.call('ZADD', KEYS[3], 'NX', string.format('%.17g', expires_at), id) == 1 and id
end

local heads, stored = {}, 0
for i = BEFORE_KEYS + 1, #KEYS do
  local made = ARGV[i + BEFORE_RECORDS - BEFORE_KEYS]
  local _, n, _, _, _, _, expires_at = struct.unpack(HEAD, made)
  local noted = there[6] and note_deadline(KEYS[i], expires_at)
  local record = redis.call('SET', KEYS[i], made, 'PX', ARGV[8], 'NX', 'GET')
  if record then
    heads[i - BEFORE_KEYS] = head_of(record)
    if noted then
      redis.call('ZREM', KEYS[3], noted)
    end
  else
    heads[i - BEFORE_KEYS], stored = false, stored + n
  end
end
redis.pcall('HINCRBY', KEYS[1], 'predictions', stored) -- a damaged counter must not fail the call
return {false, heads}
