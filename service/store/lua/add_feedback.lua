-- Joins feedback with its predictions and appends one round per prediction to the log.
-- KEYS: model, log, then the blocks of predictions.
-- ARGV: incarnation, now, accept late (1/0), truth needed (1/0),
--       then for each block: its id, and the feedback for its predictions, concatenated:
--       token i8 (-1: the block's only prediction; otherwise the lowest two bytes are its index), correct u8 (1, 0, or
--       2 if only the truth is given), bytes of the truth u4, the truth.
-- Returns nil if the model is gone, otherwise two strings for each block: one letter per feedback item, the first of
-- its status, and the recorded outcomes of the items that have one. Items that are not recorded are counted by status.
-- Blocks of version 3 stay unchanged: their letter is `o`, and add_feedback_format_3.lua joins them.
-- Layouts: service/store/records/layout.py. Truths are compared with answers as bytes.
-- A record may be damaged, so its lengths are verified before they are used, and its checks before it is joined.
local SAID, SAID_BYTES = '<BI4', 13 -- format between token and truth; bytes up to the truth
local BEFORE_BLOCKS = 4
local SINGLE = string.rep('\255', 8)
local NOTHING_SAID = 2
local UNCHECKED = string.rep('\0', CHECK_BYTES)
local NAMES = {
  b = 'broken', c = 'conflict', d = 'duplicate', e = 'expired', i = 'inconsistent', l = 'label-needed',
  n = 'newer-version', u = 'unknown',
}

local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'changes')
if there[1] ~= ARGV[1] then
  return false
end
local changes = there[3] or '0'
if not is_count(there[2] or '') or not is_count(changes) then
  return redis.error_reply('CORRUPT the number of its rounds or changes is damaged')
end
if not ends_log(KEYS[2], there[2], changes) then
  return redis.error_reply('CORRUPT the log does not end with round ' .. there[2])
end
local first, right = tonumber(there[2]), 0
local rounds = first
local now, accept_late, truth_needed = tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4] == '1'

local function check_of(bytes)
  return string.sub(redis.sha1hex(bytes), 1, CHECK_BYTES)
end

-- Returns the block, or nil and the status of all its feedback.
local function read_block(key)
  local record = redis.pcall('GET', key)
  if not record then
    return nil, 'u'
  end
  if type(record) ~= 'string' or #record < HEAD_BYTES then
    return nil, 'b'
  end
  local version = string.byte(record)
  if version ~= VERSION then
    return nil, version > VERSION and 'n' or version == VERSION_3 and 'o' or 'b'
  end
  local _, n, flags, answer_bytes, _, expires_at = struct.unpack(HEAD, record)
  local block = {record = record, n = n, answer_bytes = answer_bytes, expires_at = expires_at}
  block.prediction, block.slot = PREDICTION_BYTES + answer_bytes, OUTCOME_BYTES + answer_bytes
  block.check_at = HEAD_BYTES + n * block.prediction
  block.open_at = block.check_at + CHECK_BYTES
  block.outcomes_at = block.open_at + OPEN_COUNT_BYTES
  block.bodies_at = block.outcomes_at + n * block.slot
  if n < 1 or #record < block.bodies_at then
    return nil, 'b'
  end
  if check_of(string.sub(record, 1, block.check_at)) ~= string.sub(record, block.check_at + 1, block.open_at) then
    return nil, 'b'
  end
  if flags ~= 0 then
    return nil, 'n'
  end
  block.nothing, block.unknown = string.rep('\0', block.slot), string.rep('\255', answer_bytes)
  block.fresh, block.rounds, block.right, block.first, block.last = {}, {}, 0, n, 0
  return block
end

local function outcome_of(block, i)
  local at = block.outcomes_at + i * block.slot
  return block.fresh[i] or string.sub(block.record, at + 1, at + block.slot)
end

-- Returns the body of an open prediction; nil if it is damaged.
local function body_of(block, prediction)
  local from, upto, _, check = struct.unpack(PREDICTION, prediction)
  local body = string.sub(block.record, block.bodies_at + from + 1, block.bodies_at + upto)
  return #body == upto - from and check_of(body) == check and body or nil
end

-- Returns the status of a recorded outcome that is damaged or of a newer version; nil if it is readable.
local function trouble_with(outcome, token_and_check)
  local check, kind, reward = struct.unpack(OUTCOME, outcome)
  if check_of(string.sub(outcome, OUTCOME_KIND) .. token_and_check) ~= check then
    return 'b'
  end
  return (kind ~= FEEDBACK or (reward ~= 0 and reward ~= 1)) and 'n' or nil
end

local function close(block, i, token_and_check, correct, truth, body)
  local written = truth == '' and block.unknown or truth
  local number = rounds + #block.rounds + 1
  local said = string.sub(struct.pack(OUTCOME, UNCHECKED, FEEDBACK, correct, now, number), OUTCOME_KIND) .. written
  local outcome = check_of(said .. token_and_check) .. said
  local rest = outcome .. token_and_check .. body
  block.rounds[number - rounds] = struct.pack('<I4', 4 + #rest) .. rest
  block.right = block.right + correct
  block.fresh[i], block.first, block.last = outcome, math.min(block.first, i), math.max(block.last, i)
  return 'r', outcome
end

local function compare(block, outcome, correct, truth)
  local _, _, reward = struct.unpack(OUTCOME, outcome)
  local first_truth = string.sub(outcome, OUTCOME_TRUTH)
  local both_known = truth ~= '' and first_truth ~= block.unknown
  if correct ~= reward or (both_known and truth ~= first_truth) then
    return 'c', outcome
  end
  return 'd', outcome
end

local function judge(block, token, correct, truth)
  local i = token == SINGLE and 0 or struct.unpack('<I2', token)
  local at = HEAD_BYTES + i * block.prediction
  local prediction = string.sub(block.record, at + 1, at + block.prediction)
  if i >= block.n or token ~= string.sub(prediction, PREDICTION_TOKEN, PREDICTION_BODY_CHECK - 1) then
    return 'u'
  end
  local token_and_check = string.sub(prediction, PREDICTION_TOKEN, PREDICTION_PROPENSITY - 1)
  local answer, outcome, body = string.sub(prediction, PREDICTION_OUTPUT), outcome_of(block, i), nil
  if outcome == block.nothing then
    body = body_of(block, prediction)
    if not body then
      return 'b'
    end
  else
    local trouble = trouble_with(outcome, token_and_check)
    if trouble then
      return trouble
    end
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
  return close(block, i, token_and_check, correct, truth, body)
end

-- Returns the number of open predictions in a block. The stored number may be damaged, so zero is verified: an open
-- prediction needs its body.
local function open_in(block)
  local open = struct.unpack(OPEN_COUNT, block.record, block.open_at + 1) - #block.rounds
  if open > 0 then
    return open
  end
  open = 0
  for i = 0, block.n - 1 do
    open = open + (outcome_of(block, i) == block.nothing and 1 or 0)
  end
  return open
end

local function outcomes_in(block, from, upto)
  local outcomes = {}
  for i = from, upto do
    outcomes[#outcomes + 1] = outcome_of(block, i)
  end
  return table.concat(outcomes)
end

local function keep(key, id, block)
  local number, open = rounds + #block.rounds, open_in(block)
  local entry = string.format('%.0f-%s', number, changes)
  redis.call('XADD', KEYS[2], entry, 't', 'r', 'v', VERSION, 'p', id, 'd', table.concat(block.rounds))
  rounds, right = number, right + block.right
  local still_open = struct.pack(OPEN_COUNT, open)
  if open > 0 then
    redis.call('SETRANGE', key, block.open_at, still_open)
    local at = block.outcomes_at + block.first * block.slot
    redis.call('SETRANGE', key, at, outcomes_in(block, block.first, block.last))
  else -- all predictions are closed: drop the bodies
    local head = string.sub(block.record, 1, block.open_at)
    redis.call('SET', key, head .. still_open .. outcomes_in(block, 0, block.n - 1), 'KEEPTTL')
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
    if NAMES[status] then
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
