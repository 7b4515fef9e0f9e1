-- Joins feedback with its predictions and appends the rounds to the log, one for each prediction.
-- KEYS: model, log, then one block of predictions each.
-- ARGV: incarnation, now, accept late (1/0), truth needed (1/0),
--       then for each block: its id, and what is said of its predictions, one after the other:
--       token i8 (-1: the block is the prediction; else its place is in the lowest two bytes), correct u8 (1, 0, or
--       2 where only the truth is given), bytes of the truth u4, the truth.
-- Returns nil if the model is gone, else for each block two strings: a letter for each that was said, the first of
-- its status, and the outcomes on record of those that have one. Whatever is not recorded is counted.
-- Formats: service/store/records.py. Answers and truths are compared as bytes.
local FORMAT = 3
local HEAD, HEAD_BYTES = '<BI4I4I4c16d', 45
local OPEN_AT = 5 -- before it: format and predictions
local OUTCOME, OUTCOME_BYTES = '<Bdi8', 17 -- before the truth
local SAID, SAID_BYTES = '<BI4', 13 -- behind the token; before the truth
local SINGLE = string.rep('\255', 8)
local NOTHING_SAID = 2
local NAMES = {c = 'conflict', d = 'duplicate', e = 'expired', i = 'inconsistent', l = 'label-needed', u = 'unknown'}

local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds')
if there[1] ~= ARGV[1] then
  return false
end
local first, right = tonumber(there[2]), 0
local rounds = first
local now, accept_late, truth_needed = tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4] == '1'

local function read_block(key)
  local record = redis.call('GET', key)
  if not record then
    return nil
  end
  local format, n, open, answer_bytes, _, expires_at = struct.unpack(HEAD, record)
  local block = {record = record, n = n, open = open, answer_bytes = answer_bytes, expires_at = expires_at}
  block.slot = OUTCOME_BYTES + answer_bytes
  block.heads_at = HEAD_BYTES + n * block.slot
  block.head = 24 + answer_bytes -- propensity, answer, token, where its body begins and ends
  block.bodies_at = block.heads_at + n * block.head
  block.nothing, block.unknown = string.rep('\0', block.slot), string.rep('\255', answer_bytes)
  if format ~= FORMAT or #record < block.bodies_at then
    error('a block of predictions has an unknown format')
  end
  block.fresh, block.rounds, block.right, block.first, block.last = {}, {}, 0, n, 0
  return block
end

local function outcome_of(block, i)
  return block.fresh[i] or string.sub(block.record, HEAD_BYTES + i * block.slot + 1, HEAD_BYTES + (i + 1) * block.slot)
end

local function close(block, i, token, correct, truth)
  local written = truth == '' and block.unknown or truth
  local outcome = struct.pack(OUTCOME, correct, now, rounds + #block.rounds + 1) .. written
  local from, upto = struct.unpack('<I4I4', block.record, block.heads_at + (i + 1) * block.head - 7)
  local body = string.sub(block.record, block.bodies_at + from + 1, block.bodies_at + upto)
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
  local answer = string.sub(block.record, answer_at + 1, token_at)
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
  local outcome = outcome_of(block, i)
  if outcome ~= block.nothing then
    return compare(block, outcome, correct, truth)
  end
  if now > block.expires_at and not accept_late then
    return 'e'
  end
  if truth_needed and truth == '' then
    return 'l'
  end
  return close(block, i, token, correct, truth)
end

local function keep(key, id, block)
  local number, open = rounds + #block.rounds, block.open - #block.rounds
  redis.call('XADD', KEYS[2], string.format('%.0f-0', number), 'p', id, 'r', table.concat(block.rounds))
  rounds, right = number, right + block.right
  local record, from, upto = block.record, open == 0 and 0 or block.first, open == 0 and block.n - 1 or block.last
  local slots = {}
  for i = from, upto do
    slots[#slots + 1] = outcome_of(block, i)
  end
  local outcomes, still_open = table.concat(slots), struct.pack('<I4', open)
  if open > 0 then
    redis.call('SETRANGE', key, OPEN_AT, still_open)
    redis.call('SETRANGE', key, HEAD_BYTES + from * block.slot, outcomes)
  else -- nobody asks for the bodies any more
    local head = string.sub(record, 1, OPEN_AT) .. still_open .. string.sub(record, OPEN_AT + 5, HEAD_BYTES)
    local heads = string.sub(record, block.heads_at + 1, block.bodies_at)
    redis.call('SET', key, head .. outcomes .. heads, 'KEEPTTL')
  end
end

local others = {}
local function give(key, id, said)
  local block, at, statuses, outcomes = read_block(key), 1, {}, {}
  while at <= #said do
    local token, correct, truth_bytes = string.sub(said, at, at + 7), struct.unpack(SAID, said, at + 8)
    local truth = string.sub(said, at + SAID_BYTES, at + SAID_BYTES + truth_bytes - 1)
    at = at + SAID_BYTES + truth_bytes
    local status, outcome = 'u', nil
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
    results[i - 2] = give(KEYS[i], ARGV[2 * i - 1], ARGV[2 * i])
  end
end)
-- Counted once for all, and also where one of them was stopped by a broken record.
if rounds > first then
  redis.call('HINCRBY', KEYS[1], 'rounds', rounds - first)
  redis.call('HINCRBY', KEYS[1], 'correct', right)
  redis.call('HSET', KEYS[1], 'last_at', ARGV[2])
end
for status, count in pairs(others) do
  redis.pcall('HINCRBY', KEYS[1], 'refused:' .. NAMES[status], count) -- a full store still answers
end
if not done then
  local plain = type(trouble) == 'table' and trouble.err or tostring(trouble)
  return redis.error_reply((string.gsub(plain, '^@?user_script:%d+: ', '')))
end
return results
