-- Joins feedback with its prediction and appends the round to the log, once for each prediction.
-- KEYS: model, log, then one prediction each.
-- ARGV: incarnation, now, accept late (1/0), truth needed (1/0),
--       then for each: id, correct (1, 0 or ? where only the truth is given), truth (empty where unknown).
-- Returns nil if the model is gone, else for each {status, outcome}. Whatever is not recorded is counted.
-- Record formats: service/store/records.py. Answers and truths are compared as bytes.
local HEAD = '<BBI4c16d'
local HEAD_BYTES = 46 -- before the answer
local OUTCOME = '<Bdi8'
local OUTCOME_BYTES = 17 -- before the truth

local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds')
if there[1] ~= ARGV[1] then
  return false
end
local first, right = tonumber(there[2]), 0
local rounds = first
local now, accept_late, truth_needed = tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4] == '1'

local function close(key, record, id, correct, truth, head_bytes)
  local number = rounds + 1
  local written = truth == '' and string.rep('\255', head_bytes - HEAD_BYTES) or truth
  local outcome = struct.pack(OUTCOME, correct, now, number) .. written
  local round = outcome .. string.sub(record, head_bytes + 1)
  redis.call('XADD', KEYS[2], string.format('%.0f-0', number), 'p', id, 'r', round)
  rounds, right = number, right + correct
  local head = string.sub(record, 1, 1) .. '\1' .. string.sub(record, 3, head_bytes)
  redis.call('SET', key, head .. outcome, 'KEEPTTL')
  return {'recorded', outcome}
end

local function compare(outcome, correct, truth)
  local first_correct, first_truth = struct.unpack('<B', outcome), string.sub(outcome, OUTCOME_BYTES + 1)
  local both_known = truth ~= '' and first_truth ~= string.rep('\255', #first_truth)
  if correct ~= first_correct or (both_known and truth ~= first_truth) then
    return {'conflict', outcome}
  end
  return {'duplicate', outcome}
end

local function give(key, id, correct_text, truth)
  local record = redis.call('GET', key)
  if not record then
    return {'unknown'}
  end
  local _, closed, answer_bytes, _, expires_at = struct.unpack(HEAD, record)
  local head_bytes = HEAD_BYTES + answer_bytes
  local answer = string.sub(record, HEAD_BYTES + 1, head_bytes)
  local correct = tonumber(correct_text)
  if truth ~= '' then
    local matches = truth == answer and 1 or 0
    if correct and correct ~= matches then
      return {'inconsistent'}
    end
    correct = matches
  elseif correct == 1 then
    truth = answer
  end
  if closed == 1 then
    return compare(string.sub(record, head_bytes + 1), correct, truth)
  end
  if now > expires_at and not accept_late then
    return {'expired'}
  end
  if truth_needed and truth == '' then
    return {'label-needed'}
  end
  return close(key, record, id, correct, truth, head_bytes)
end

local results, others = {}, {}
local function give_all()
  for i = 3, #KEYS do
    local at = 5 + (i - 3) * 3
    local result = give(KEYS[i], ARGV[at], ARGV[at + 1], ARGV[at + 2])
    results[i - 2] = result
    if result[1] ~= 'recorded' then
      others[result[1]] = (others[result[1]] or 0) + 1
    end
  end
end
local done, trouble = pcall(give_all)
-- Counted once for all, and also where one of them was stopped by a broken record.
if rounds > first then
  redis.call('HINCRBY', KEYS[1], 'rounds', rounds - first)
  redis.call('HINCRBY', KEYS[1], 'correct', right)
  redis.call('HSET', KEYS[1], 'last_at', ARGV[2])
end
for status, count in pairs(others) do
  redis.pcall('HINCRBY', KEYS[1], 'refused:' .. status, count) -- a full store still answers
end
if not done then
  local plain = type(trouble) == 'table' and trouble.err or tostring(trouble)
  return redis.error_reply((string.gsub(plain, '^@?user_script:%d+: ', '')))
end
return results
