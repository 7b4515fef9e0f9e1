-- Prepended to scripts that store or close blocks.
-- Books bytes of open predictions in or out (open_bytes.lua). A damaged counter must not fail the call.
local function book_open(model, released_at, bytes)
  redis.pcall('HINCRBY', model, 'open_bytes', bytes)
  redis.pcall('HINCRBY', model, string.format('open:%.0f', released_at), bytes)
end

