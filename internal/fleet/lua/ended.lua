-- ended: writes down how the last look at a sender key has ended.
-- KEYS: 1 failing
-- ARGV: 1 the sender key's hash, 2 "1" when it has failed, 3 how long that is kept, in ms
-- The scores are Unix ms by this server's clock. Answers 1.
if ARGV[2] ~= '1' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return 1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3]) -- of hospitals that are no longer there
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
