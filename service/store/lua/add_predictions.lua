-- Stores blocks of predictions, except those with an id in use, if they account for every round and every change.
-- KEYS: model, log, deadlines, then the blocks.
-- ARGV: incarnation, rounds seen (-1: skip the check), changes seen, moment of the last round seen (8 bytes; empty:
--       unknown), whether newer rounds are allowed (1/0), most rounds to return, version of the damage record taken
--       into account, time to live in milliseconds, most bytes of open predictions (0: any), digest of the history
--       seen, then the record of each block.
-- Returns nil if the model is gone. If the log does not match what was seen: {total rounds, entries from the last one
-- seen on, version of the damage record, total changes, digest}. Otherwise {false, heads}: for each block false if it was
-- stored, the record already stored, without bodies, or 1 if it was refused because of the bytes of open predictions.
-- Layouts: service/store/records/layout.py. What follows in add_predictions_late.lua runs only if the log has news, or
-- if there may be no room.
local BEFORE_KEYS, BEFORE_RECORDS = 3, 10
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'changes', 'last_at', 'damage', 'closing',
  'open_bytes', 'digest')
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
  local id = string.sub(key, #KEYS[3] - #'deadlines' + #'p:' + 1)
  redis.call('ZADD', KEYS[3], 'NX', string.format('%.17g', (struct.unpack('<d', made, HEAD_EXPIRES_AT))), id)
end

-- Stores the blocks for which there is room. Their bytes are booked as open until the last prediction of their block is
-- closed (blocks.lua), or its key has expired.
local function add_all(has_room)
  local heads, stored, refused, booked, released_at = {}, 0, 0, 0, nil
  for i = BEFORE_KEYS + 1, #KEYS do
    local made = ARGV[i + BEFORE_RECORDS - BEFORE_KEYS]
    local place, n, record = i - BEFORE_KEYS, (struct.unpack('<I4', made, HEAD_PREDICTIONS)), nil
    local fits = not has_room or has_room(#made)
    if fits then
      record = redis.call('SET', KEYS[i], made, 'PX', ARGV[8], 'NX', 'GET')
    else
      record = redis.call('GET', KEYS[i])
    end
    if record then
      heads[place] = head_of(record)
    elseif fits then
      heads[place], stored, booked = false, stored + n, booked + #made + KEY_BYTES
      released_at = struct.unpack('<i8', made, HEAD_RELEASED_AT) -- the same for all
      if there[6] then
        note_deadline(KEYS[i], made)
      end
    else
      heads[place], refused = 1, refused + n
    end
  end
  if stored > 0 then
    redis.pcall('HINCRBY', KEYS[1], 'predictions', stored) -- a damaged counter must not fail the call
    book_open(KEYS[1], released_at, booked)
  end
  if refused > 0 then
    redis.pcall('HINCRBY', KEYS[1], 'predictions_refused', refused)
  end
  return {false, heads}
end

local is_newest = ARGV[4] == '' or (there[4] and struct.pack('<d', tonumber(there[4]) or 0) == ARGV[4])
if is_newest and there[2] == ARGV[2] and (there[3] or '0') == ARGV[3] and (there[5] or '0') == ARGV[7]
  and there[8] == ARGV[10] then
  local most, open = tonumber(ARGV[9]), tonumber(there[7] or '0')
  for i = BEFORE_RECORDS + 1, #ARGV do
    open = open and open + #ARGV[i] + KEY_BYTES
  end
  if most == 0 or open and open <= most then
    return add_all()
  end
end

