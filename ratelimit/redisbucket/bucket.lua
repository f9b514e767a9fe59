-- One call on the buckets of a path: the arithmetic of ratelimit.Bucket, in doubles that hold only
-- whole numbers below 2^53, so that every result is the same to the bit.
--
-- KEYS[1]  the tenant's hash; a field per limit: "level stamp part"
-- ARGV[1]  "take": all or none; "adjust": charge and refund, refuse nothing
-- ARGV[2]  the time in microseconds; "" is this server's own clock
-- ARGV[3]  how long the hash must be kept, in milliseconds: longer than any bucket takes to fill
-- then for each limit: name, amount, period in units, unit in microseconds, burst, cost
--
-- Answers {1 or 0, level, stamp, part, level, stamp, part, …} as the buckets stand now.
local steps = 6
local first = 4

local now = tonumber(ARGV[2])
if not now then
  local clock = redis.call('TIME')
  now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
end

local names = {}
for at = first, #ARGV, steps do
  names[#names + 1] = ARGV[at]
end
local stored = redis.call('HMGET', KEYS[1], unpack(names))

local path = {}
local allowed = true
for i = 1, #names do
  local at = first + (i - 1) * steps
  local amount, period = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local unit, burst, cost = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])

  local level, stamp, part
  if stored[i] then
    level, stamp, part = string.match(stored[i], '^(%-?%d+) (%d+) (%d+)$')
  end
  if level then
    level, stamp, part = tonumber(level), tonumber(stamp), tonumber(part)
  else
    level, stamp, part = burst, now, 0
  end

  -- Refill.
  level = math.min(math.max(level, -burst), burst)
  part = math.min(part, period - 1)
  if now < stamp then
    stamp = now
  end
  local passed = math.floor((now - stamp) / unit)
  if passed >= math.floor(((burst - level) * period - part + amount - 1) / amount) then
    level, stamp, part = burst, now, 0
  else
    local inflow = passed * amount + part
    local whole = math.floor(inflow / period)
    level = level + whole
    part = inflow - whole * period
    stamp = stamp + passed * unit
  end

  allowed = allowed and level >= cost
  path[i] = {level = level, stamp = stamp, part = part, burst = burst, cost = cost}
end

local adjust = ARGV[1] == 'adjust'
local write = {}
local answer = {(allowed or adjust) and 1 or 0}
for i = 1, #path do
  local b = path[i]
  if adjust then
    b.level = math.min(math.max(b.level - b.cost, -b.burst), b.burst)
    if b.cost < 0 and b.level == b.burst then
      b.part = 0
    end
  elseif allowed then
    b.level = b.level - b.cost
  end
  write[#write + 1] = names[i]
  write[#write + 1] = string.format('%.0f %.0f %.0f', b.level, b.stamp, b.part)
  answer[#answer + 1] = b.level
  answer[#answer + 1] = b.stamp
  answer[#answer + 1] = b.part
end
redis.call('HSET', KEYS[1], unpack(write))

-- An idle hash goes away once its buckets are surely full. The time left is only ever raised, by
-- ten seconds more than needed, so that this writes once in ten seconds.
local keep = tonumber(ARGV[3])
if redis.call('PTTL', KEYS[1]) < keep then
  redis.call('PEXPIRE', KEYS[1], keep + 10000)
end
return answer
