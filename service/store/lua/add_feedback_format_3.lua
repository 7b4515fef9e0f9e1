-- Like add_feedback.lua, for predictions stored by release 0.1.0. This frozen script is obsolete once all have expired.
-- KEYS: model, log, then the blocks of predictions.
-- ARGV: incarnation, now, accept late (1/0), truth needed (1/0),
--       the shape of the model's records: kind of answer (label, label-set, ranking), labels, bytes of an answer, bytes
--       of a body without a sparse context, features of a sparse context (0: dense),
--       then for each block: its id, and the feedback for its predictions, concatenated:
--       token i8 (-1: the block's only prediction; otherwise the lowest two bytes are its index), correct u8 (1, 0, or
--       2 if only the truth is given), bytes of the truth u4, the truth.
-- Returns nil if the model is gone, otherwise two strings for each block: one letter per feedback item, the first of
-- its status, and the recorded outcomes of the items that have one. Items that are not recorded are counted by status.
-- Formats: service/store/records/format_3.py. Truths are compared with answers as bytes.
-- A record may be damaged, so its lengths are verified before they are used, and a prediction before it is joined.
local FORMAT = 3
local HEAD, HEAD_BYTES = '<BI4I4I4c16di8', 45
local OPEN_AT = 5 -- after format and predictions
local OUTCOME, OUTCOME_BYTES = '<Bdi8', 17 -- up to the truth
local SAID, SAID_BYTES = '<BI4', 13 -- format between token and truth; bytes up to the truth
local BEFORE_BLOCKS = 9
local SINGLE = string.rep('\255', 8)
local NOTHING_SAID = 2
local LATEST = 253402300800 -- seconds: the year 10000
local PAIR_BYTES = 12 -- an entry of a sparse context: index u4, value f8
local HIGHEST = {'\127', '\255'} -- highest byte of an infinite float64 or NaN; the byte before is at least 240
local NAMES = {
  b = 'broken', c = 'conflict', d = 'duplicate', e = 'expired', i = 'inconsistent', l = 'label-needed',
  n = 'newer-version', u = 'unknown',
}

local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'changes')
if there[1] ~= ARGV[1] then
  return false
end
if not string.match(there[2] or '', '^%d+$') or #there[2] > 15 then
  return redis.error_reply('CORRUPT the number of its rounds is damaged')
end
local changes = there[3] or '0'
if not string.match(changes, '^%d+$') or #changes > 15 then
  return redis.error_reply('CORRUPT the number of its changes is damaged')
end
local first, right = tonumber(there[2]), 0
local rounds = first
local now, accept_late, truth_needed = tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4] == '1'

local KIND, LABELS, ANSWER_BYTES = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local BODY_BYTES, FEATURES = tonumber(ARGV[8]), tonumber(ARGV[9])

-- Returns the block, or nil and the status of all its feedback.
local function read_block(key)
  local record = redis.pcall('GET', key)
  if not record then
    return nil, 'u'
  end
  if type(record) ~= 'string' or #record < HEAD_BYTES then
    return nil, 'b'
  end
  local format, n, open, answer_bytes, _, expires_at, seen = struct.unpack(HEAD, record)
  if format ~= FORMAT then
    return nil, format > FORMAT and 'n' or 'b'
  end
  local block = {record = record, n = n, open = open, answer_bytes = answer_bytes, expires_at = expires_at}
  block.seen = seen
  block.slot = OUTCOME_BYTES + answer_bytes
  block.heads_at = HEAD_BYTES + n * block.slot
  block.head = 24 + answer_bytes -- propensity, answer, token, begin and end of the body
  block.bodies_at = block.heads_at + n * block.head
  local possible = n > 0 and answer_bytes == ANSWER_BYTES and expires_at >= 0 and expires_at <= LATEST
  if not possible or #record < block.bodies_at then
    return nil, 'b'
  end
  block.nothing, block.unknown = string.rep('\0', block.slot), string.rep('\255', answer_bytes)
  block.fresh, block.rounds, block.right, block.first, block.last = {}, {}, 0, n, 0
  return block
end

local function outcome_of(block, i)
  return block.fresh[i] or string.sub(block.record, HEAD_BYTES + i * block.slot + 1, HEAD_BYTES + (i + 1) * block.slot)
end

-- Returns whether the float64s that end every `stride` bytes are finite. The exponent of infinity and NaN is all ones,
-- so their highest byte has one of two values. Searching for these bytes is faster than decoding each number.
local function are_numbers(bytes, from, upto, stride)
  for _, highest in ipairs(HIGHEST) do
    local at = string.find(bytes, highest, from, true)
    while at and at <= upto do
      local ahead = (stride - 1 - (at - from)) % stride
      if ahead == 0 and string.byte(bytes, at - 1) >= 240 then
        return false
      end
      at = string.find(bytes, highest, at + (ahead == 0 and stride or ahead), true)
    end
  end
  return true
end

local function is_answer(answer)
  if KIND == 'label' then
    return struct.unpack('<I4', answer) < LABELS
  elseif KIND == 'label-set' then
    return not string.find(answer, '[^%z\1]')
  end
  local found = {}
  for at = 1, #answer, 4 do
    local label = struct.unpack('<I4', answer, at)
    if label >= LABELS or found[label] then
      return false
    end
    found[label] = true
  end
  return true
end

local function is_sparse_context(body)
  for at = BODY_BYTES + 1, #body, PAIR_BYTES do
    if struct.unpack('<I4', body, at) >= FEATURES then
      return false
    end
  end
  return are_numbers(body, BODY_BYTES + 1, #body, PAIR_BYTES)
end

-- Returns the body of an open prediction; nil if the record is damaged.
local function body_of(block, i)
  local record, head_at = block.record, block.heads_at + i * block.head
  local from, upto = struct.unpack('<I4I4', record, head_at + block.head - 7)
  local before = i == 0 and 0 or struct.unpack('<I4', record, head_at - 3)
  local after = i == block.n - 1 and #record - block.bodies_at
    or struct.unpack('<I4', record, head_at + 2 * block.head - 7)
  local context = upto - from - BODY_BYTES
  local whole = FEATURES > 0 and context >= 0 and context % PAIR_BYTES == 0 or context == 0
  if from ~= before or upto ~= after or not whole or block.bodies_at + upto > #record then
    return nil
  end
  return string.sub(record, block.bodies_at + from + 1, block.bodies_at + upto)
end

-- Returns whether a prediction has only valid numbers. The reader of the log would refuse any other.
local function is_sound(block, i, body)
  local record, head_at, answer = block.record, block.heads_at + i * block.head, string.sub(body, 1, ANSWER_BYTES)
  local p, seen, predicted_at, leftover = struct.unpack('<di8dd', body, ANSWER_BYTES + 1)
  return p == struct.unpack('<d', record, head_at + 1)
    and answer == string.sub(record, head_at + 9, head_at + 8 + ANSWER_BYTES)
    and seen == block.seen
    and is_answer(answer)
    and p <= 1 and (p > 0 or (p == 0 and KIND ~= 'label'))
    and predicted_at >= 0 and predicted_at <= LATEST
    and leftover >= 0 and leftover < 1
    and are_numbers(body, ANSWER_BYTES + 17, BODY_BYTES, 8)
    and (FEATURES == 0 or is_sparse_context(body))
end

-- Returns whether a recorded outcome is consistent with the answer and has the number of an existing round.
local function is_outcome(block, outcome, answer)
  local correct, at, number = struct.unpack(OUTCOME, outcome)
  local truth = string.sub(outcome, OUTCOME_BYTES + 1)
  return correct == (truth == answer and 1 or 0) and (truth == block.unknown or is_answer(truth))
    and at > 0 and at <= LATEST and number >= 1 and number <= rounds + #block.rounds
end

local function close(block, i, token, correct, truth, body)
  local written = truth == '' and block.unknown or truth
  local outcome = struct.pack(OUTCOME, correct, now, rounds + #block.rounds + 1) .. written
  local length = struct.pack('<I4', 12 + #outcome + #body)
  block.rounds[#block.rounds + 1] = length .. outcome .. token .. body
  block.right = block.right + correct
  block.fresh[i], block.first, block.last = outcome, math.min(block.first, i), math.max(block.last, i)
  return 'r', outcome
end

local function compare(block, outcome, correct, truth)
  local first_correct, first_truth = string.byte(outcome), string.sub(outcome, OUTCOME_BYTES + 1)
  local both_known = truth ~= '' and first_truth ~= block.unknown
  if correct ~= first_correct or (both_known and truth ~= first_truth) then
    return 'c', outcome
  end
  return 'd', outcome
end

local function judge(block, token, correct, truth)
  local i = token == SINGLE and 0 or struct.unpack('<I2', token)
  local answer_at = block.heads_at + i * block.head + 8
  local token_at = answer_at + block.answer_bytes
  if i >= block.n or token ~= string.sub(block.record, token_at + 1, token_at + 8) then
    return 'u'
  end
  local answer, outcome, body = string.sub(block.record, answer_at + 1, token_at), outcome_of(block, i), nil
  if outcome == block.nothing then
    body = body_of(block, i)
    if not (body and is_sound(block, i, body)) then
      return 'b'
    end
  elseif not is_outcome(block, outcome, answer) then
    return 'b'
  end
  if truth ~= '' then
    if #truth ~= block.answer_bytes then
      error('a truth has another length than the answer')
    end
    local matches = truth == answer and 1 or 0
    if correct ~= NOTHING_SAID and correct ~= matches then
      return 'i'
    end
    correct = matches
  elseif correct == 1 then
    truth = answer
  end
  if outcome ~= block.nothing then
    return compare(block, outcome, correct, truth)
  end
  if now > block.expires_at and not accept_late then
    return 'e'
  end
  if truth_needed and truth == '' then
    return 'l'
  end
  return close(block, i, token, correct, truth, body)
end

local function keep(key, id, block)
  local number, open = rounds + #block.rounds, block.open - #block.rounds
  redis.call('XADD', KEYS[2], string.format('%.0f-%s', number, changes), 'p', id, 'r', table.concat(block.rounds))
  rounds, right = number, right + block.right
  local record, from, upto, slots = block.record, block.first, block.last, {}
  if open <= 0 then -- the stored number may be damaged: count, because an open prediction needs its body
    open, from, upto = 0, 0, block.n - 1
    for i = from, upto do
      open = open + (outcome_of(block, i) == block.nothing and 1 or 0)
    end
  end
  for i = from, upto do
    slots[#slots + 1] = outcome_of(block, i)
  end
  local outcomes, still_open = table.concat(slots), struct.pack('<I4', open)
  if open > 0 then
    redis.call('SETRANGE', key, OPEN_AT, still_open)
    redis.call('SETRANGE', key, HEAD_BYTES + from * block.slot, outcomes)
  else -- all predictions are closed: drop the bodies
    local head = string.sub(record, 1, OPEN_AT) .. still_open .. string.sub(record, OPEN_AT + 5, HEAD_BYTES)
    local heads = string.sub(record, block.heads_at + 1, block.bodies_at)
    redis.call('SET', key, head .. outcomes .. heads, 'KEEPTTL')
  end
end

local others = {}
local function give(key, id, said)
  local block, trouble = read_block(key)
  local at, statuses, outcomes = 1, {}, {}
  while at <= #said do
    local token, correct, truth_bytes = string.sub(said, at, at + 7), struct.unpack(SAID, said, at + 8)
    local truth = string.sub(said, at + SAID_BYTES, at + SAID_BYTES + truth_bytes - 1)
    at = at + SAID_BYTES + truth_bytes
    local status, outcome = trouble, nil
    if block then
      status, outcome = judge(block, token, correct, truth)
    end
    statuses[#statuses + 1], outcomes[#outcomes + 1] = status, outcome
  end
  if block and #block.rounds > 0 then
    keep(key, id, block)
  end
  for _, status in ipairs(statuses) do
    if status ~= 'r' then
      others[status] = (others[status] or 0) + 1
    end
  end
  return {table.concat(statuses), table.concat(outcomes)}
end

local results = {}
local done, trouble = pcall(function()
  for i = 3, #KEYS do
    results[i - 2] = give(KEYS[i], ARGV[BEFORE_BLOCKS + 2 * i - 5], ARGV[BEFORE_BLOCKS + 2 * i - 4])
  end
end)
-- The counters are updated once, and also if a damaged record stopped the loop.
if rounds > first then
  redis.call('HINCRBY', KEYS[1], 'rounds', rounds - first)
  redis.pcall('HINCRBY', KEYS[1], 'correct', right) -- a damaged counter must not fail the call
  redis.call('HSET', KEYS[1], 'last_at', ARGV[2])
end
for status, count in pairs(others) do
  redis.pcall('HINCRBY', KEYS[1], 'refused:' .. NAMES[status], count) -- a full store must still return the results
end
if not done then
  local plain = type(trouble) == 'table' and trouble.err or tostring(trouble)
  return redis.error_reply((string.gsub(plain, '^@?user_script:%d+: ', '')))
end
return results
