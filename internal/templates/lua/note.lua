-- note: writes down that hospitals hold entries, for as long as an entry lives from now on.
-- KEYS: 1 set
-- ARGV: 1 an entry's life in ms, 2... hospitals
-- The set's scores are until when, in Unix ms by this server's clock. What is written down
-- already is never shortened; what has run out goes. Answers 1.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], 'GT', now + ARGV[1], ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 1
