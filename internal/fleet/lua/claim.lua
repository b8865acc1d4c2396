-- claim: takes a sender key of a tick for one pass, and writes down when that was.
-- KEYS: 1 claim, 2 looked, 3 failing
-- ARGV: 1 the pass's token, 2 the claim's life in ms, 3 the sender key's hash, 4 the life of looked in ms
-- Answers {-1, failing} when the claim is this pass's, also when it had taken it before and the
-- reply was lost; else {how many ms ago another pass took it, failing}. failing is 1 where the
-- last look that ended had failed, else 0. The scores of looked are Unix ms by this server's
-- clock, so that of replicas whose clocks differ none hides another's.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local failing = redis.call('ZSCORE', KEYS[3], ARGV[3]) and 1 or 0
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and redis.call('GET', KEYS[1]) ~= ARGV[1] then
  local looked = redis.call('ZSCORE', KEYS[2], ARGV[3])
  return {math.max(0, now - tonumber(looked or now)), failing}
end
redis.call('ZADD', KEYS[2], now, ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return {-1, failing}
