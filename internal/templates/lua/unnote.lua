-- unnote: takes back that hospitals hold entries, where nothing was noted since it was read.
-- KEYS: 1 set
-- ARGV: pairs of a hospital and what the set was read to say of it
-- Answers how many it took back.
local taken = 0
for i = 1, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and tonumber(score) == tonumber(ARGV[i + 1]) then
    taken = taken + redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return taken
