-- Stores blocks of predictions, except those with an id in use, if they account for every round and every change.
-- KEYS: model, log, deadlines, then the blocks.
-- ARGV: incarnation, rounds seen (-1: skip the check), changes seen, moment of the last round seen (8 bytes; empty:
--       unknown), whether newer rounds are allowed (1/0), most rounds to return, version of the damage record taken
--       into account, time to live in milliseconds, then the record of each block.
-- Returns nil if the model is gone. If the log does not match what was seen: {total rounds, entries from the last one
-- seen on, version of the damage record, total changes}. Otherwise {false, heads}: for each block false if it was
-- stored, or the record already stored, without bodies.
-- Layouts: service/store/records/layout.py. What follows the first return, and the files that are joined to this one,
-- run only if the log has news.
local BEFORE_KEYS, BEFORE_RECORDS = 3, 8
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'changes', 'last_at', 'damage', 'closing')
if there[1] ~= ARGV[1] then
  return false
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

-- Names a stored block in the deadlines of a model that closes predictions.
local function note_deadline(key, made)
  local _, _, _, _, _, _, expires_at = struct.unpack(HEAD, made)
  local id = string.sub(key, #KEYS[3] - #'deadlines' + #'p:' + 1)
  redis.call('ZADD', KEYS[3], 'NX', string.format('%.17g', expires_at), id)
end

local function add_all()
  local heads, stored = {}, 0
  for i = BEFORE_KEYS + 1, #KEYS do
    local made = ARGV[i + BEFORE_RECORDS - BEFORE_KEYS]
    local record = redis.call('SET', KEYS[i], made, 'PX', ARGV[8], 'NX', 'GET')
    if record then
      heads[i - BEFORE_KEYS] = head_of(record)
    else
      heads[i - BEFORE_KEYS], stored = false, stored + struct.unpack('<I4', made, HEAD_PREDICTIONS)
      if there[6] then
        note_deadline(KEYS[i], made)
      end
    end
  end
  redis.pcall('HINCRBY', KEYS[1], 'predictions', stored) -- a damaged counter must not fail the call
  return {false, heads}
end

local last_at = there[4] and tonumber(there[4])
local is_newest = ARGV[4] == '' or (last_at and struct.pack('<d', last_at) == ARGV[4])
if there[2] == ARGV[2] and (there[3] or '0') == ARGV[3] and is_newest and (there[5] or '0') == ARGV[7] then
  return add_all() -- nothing happened since
end

