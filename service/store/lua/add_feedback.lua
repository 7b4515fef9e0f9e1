#!lua flags=allow-oom
-- Joins feedback with its predictions and appends one round per prediction to the log. If the model learns at window
-- close, the feedback waits in its block instead, and close_expired.lua appends the round.
-- KEYS: model, log, deadlines, then the blocks of predictions.
-- ARGV: incarnation, now, accept late (1/0), truth needed (1/0), number of changes and digest of the history by which
--       truths are encoded, then for each block: its id, and the feedback for its predictions, concatenated:
--       token i8 (-1: the block's only prediction; otherwise the lowest two bytes are its index), said u8 (1 or 0:
--       correct or not, and the truth if known; 2: only the truth; 3: only a reward), bytes of the rest u4, the rest:
--       the truth, or the reward f8, which is neither 0 nor 1.
-- Returns nil if the model is gone, 0 if it has another history, otherwise two strings for each block: one letter per
-- feedback item, the first of its status, and the recorded outcomes of the items that have one; then the earliest new
-- deadline, as text (empty: none), before which the model may not be due. Items that are not recorded are counted by
-- status.
-- Truths are compared with answers as bytes.
local SAID, SAID_BYTES = '<BI4', 13 -- format between token and truth; bytes up to the truth
local BEFORE_BLOCKS = 6
local SINGLE = string.rep('\255', 8)
local ONLY_TRUTH, ONLY_REWARD = 2, 3
local NAMES = {
  a = 'activation-needed', b = 'broken', c = 'conflict', d = 'duplicate', e = 'expired', h = 'history-lost',
  i = 'inconsistent', l = 'label-needed', n = 'newer-version', u = 'unknown',
}

local log, gone = open_log(ARGV[1])
if not log then
  return gone
end
local now, accept_late, truth_needed = tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4] == '1'
if not is_of_history(log, tonumber(ARGV[5]), ARGV[6]) then
  return 0
end

-- Stores feedback until the window closes.
local function hold(block, i, token_and_check, reward, truth)
  return write_outcome(block, i, token_and_check, PENDING, reward, now, 0, truth)
end

local function compare(block, outcome, reward, truth)
  local _, _, first_reward = read(OUTCOME, outcome)
  local first_truth = sub(outcome, OUTCOME_TRUTH)
  local both_known = truth ~= '' and first_truth ~= block.unknown
  if reward ~= first_reward or (both_known and truth ~= first_truth) then
    return 'c', outcome
  end
  return 'd', outcome
end

-- Returns the status of an open prediction that takes no feedback; nil if it takes it.
local function refusal(block, outcome, truth)
  if now > block.expires_at and (not accept_late or outcome == block.inactive) then
    return 'e'
  end
  if outcome == block.inactive then
    return 'a'
  end
  if not has_history(log, block) then
    return 'h'
  end
  return truth_needed and truth == '' and 'l' or nil
end

-- Returns whether a prediction abstained: its answer is the last label of a block whose last label means that.
local function abstained(block, prediction)
  local last = read('<I4', block.record, HEAD_LABELS) - 1
  return block.abstention > 0 and read('<i4', prediction, PREDICTION_OUTPUT) == last
end

-- Returns the reward and the truth that feedback means; nil and a status if it contradicts itself, or lacks the truth of
-- an abstention, which is neither right nor wrong and can itself be no truth.
local function meaning(block, prediction, said, rest)
  if abstained(block, prediction) then
    if rest == '' or said == ONLY_REWARD then
      return nil, 'l'
    end
    if said ~= ONLY_TRUTH or rest == sub(prediction, PREDICTION_OUTPUT) then
      return nil, 'i'
    end
    return block.abstention, rest
  end
  if said == ONLY_REWARD then
    return read('<d', rest), ''
  end
  if rest == '' then
    return said, said == 1 and sub(prediction, PREDICTION_OUTPUT) or ''
  end
  if #rest ~= block.answer_bytes then
    error('a truth has another length than the answer')
  end
  local matches = rest == sub(prediction, PREDICTION_OUTPUT) and 1 or 0
  if said ~= ONLY_TRUTH and said ~= matches then
    return nil, 'i'
  end
  return matches, rest
end

local function judge(block, token, said, rest)
  local i = token == SINGLE and 0 or read('<I2', token)
  local prediction = prediction_of(block, i)
  if i >= block.n or token ~= sub(prediction, PREDICTION_TOKEN, PREDICTION_BODY_CHECK - 1) then
    return 'u'
  end
  local token_and_check, outcome = token_and_check_of(prediction), outcome_of(block, i)
  local fresh = outcome == block.nothing or outcome == block.inactive
  local body = fresh and body_of(block, i, prediction)
  local trouble = fresh and not body and 'b' or not fresh and trouble_with(outcome, token_and_check)
  if trouble then
    return trouble
  end
  local reward, truth = meaning(block, prediction, said, rest)
  if not reward then
    return truth
  end
  if not fresh then
    if kind_of(outcome) == EXPIRED then
      return 'e'
    end
    return compare(block, outcome, reward, truth)
  end
  local refused = refusal(block, outcome, truth)
  if refused then
    return refused
  end
  truth = truth == '' and block.unknown or truth
  if log.waits then
    return 'r', hold(block, i, token_and_check, reward, truth)
  end
  return 'r', close(log, block, i, token_and_check, FEEDBACK, reward, now, truth, body)
end

local others = {}
local new_deadline = math.huge
local function give(key, id, given)
  local block, trouble = read_block(key)
  local at, statuses, outcomes = 1, {}, {}
  while at <= #given do
    local token, said, bytes = sub(given, at, at + 7), read(SAID, given, at + 8)
    local rest = sub(given, at + SAID_BYTES, at + SAID_BYTES + bytes - 1)
    at = at + SAID_BYTES + bytes
    local status, outcome = trouble, nil
    if block then
      status, outcome = judge(block, token, said, rest)
    end
    statuses[#statuses + 1], outcomes[#outcomes + 1] = status, outcome
  end
  if block and block.last >= 0 then
    -- the prediction may be older than the model's rule
    if log.waits and redis.call('ZADD', KEYS[3], 'NX', string.format('%.17g', block.expires_at), id) == 1 then
      new_deadline = math.min(new_deadline, block.expires_at)
    end
    keep(log, key, id, block, now)
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
  for i = BEFORE_KEYS + 1, #KEYS do
    local at = BEFORE_BLOCKS + 2 * (i - BEFORE_KEYS)
    results[i - BEFORE_KEYS] = give(KEYS[i], ARGV[at - 1], ARGV[at])
  end
end)
count_rounds(log)
for status, count in pairs(others) do
  redis.pcall('HINCRBY', KEYS[1], 'refused:' .. NAMES[status], count) -- a full store must still return the results
end
if not done then
  return reply_of(trouble)
end
results[#results + 1] = new_deadline < math.huge and string.format('%.17g', new_deadline) or ''
return results
