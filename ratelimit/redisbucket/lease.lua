-- One call for a lease: the arithmetic of ratelimit.Account, in doubles that hold only whole
-- numbers below 2^53, so that every result is the same to the bit.
--
-- KEYS[1]  the organisation's hash; a field per limit: level stamp part generation current previous,
--          per region, after an @: heard generation current previous, and its last gap's start and
--          end; and the field "": generation start length since, until when the hash is kept in ms,
--          and of the flow seen steady time part even
-- KEYS[2]  the organisation's mark: epoch lost policy. It is never dropped.
-- KEYS[3]  the lane's last answer: epoch sequence generation busy, then the answer
-- ARGV[1]  now (0: this server's clock), epoch, young, policy, sequence, ttl in µs, how long
--          the hash and the lane must be kept in ms, how many regions have shares, and which of them is the
--          caller's (0: none)
-- ARGV[2]  for each limit: form, amount (of slots, whether regions that are cut off go on by their share), period, unit, burst, cold, want, used, back, refund, and of
--          money its window's start, the next one's and what was spent; then each region's parts
-- ARGV[3…] the limits' names, then the regions', with their @
--
-- All numbers are doubles, little end first. What has another length than it should is as good as missing. Answers status, epoch, validity in µs, start and end
-- of the region's last gap in µs ago, then for each limit: granted, level, held.
local RATE, SLOTS, MONEY = 0, 1, 2
local GRAIN = 65536
local PARTS, SILENT, ALWAYS = 1000000, 1500000, 9007199254740991
local floor, min, max = math.floor, math.min, math.max
local pack, unpack_ = struct.pack, struct.unpack

local now, epoch, young, policy, seq, ttl, keep, lanekeep, shares, mine = unpack_('<dddddddddd', ARGV[1])
if now == 0 then
  local clock = redis.call('TIME')
  now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
end

local known = redis.call('MGET', KEYS[2], KEYS[3])
local mepoch, lost, mpolicy = 0, 0, 0
if known[1] and #known[1] == 24 then
  mepoch, lost, mpolicy = unpack_('<ddd', known[1])
end
local lepoch, lseq, lgen, lbusy = 0, 0, 0, 0
if known[2] and #known[2] >= 72 then
  lepoch, lseq, lgen, lbusy = unpack_('<dddd', known[2])
end
if seq == lseq then
  return string.sub(known[2], 33)
end
if seq < lseq then
  return pack('<ddddd', 3, mepoch, 0, 0, 0)
end
if epoch < mepoch or policy < mpolicy then
  return pack('<ddddd', 2, mepoch, 0, 0, 0)
end
if epoch > mepoch then
  lost = (mepoch == 0 and young == 1) and -1 or now
  redis.call('DEL', KEYS[1])
end
if epoch > mepoch or policy > mpolicy then
  redis.call('SET', KEYS[2], pack('<ddd', epoch, lost, policy))
end

local names = {''}
for i = 3, #ARGV do
  names[i - 1] = ARGV[i]
end
local stored = redis.call('HMGET', KEYS[1], unpack(names))
local levels = #names - 1 - shares

-- The generation.
local gen, start, length, since, kept, seen, steady, flow, rest, even
if stored[1] and #stored[1] == 80 then
  gen, start, length, since, kept, seen, steady, flow, rest, even = unpack_('<dddddddddd', stored[1])
else
  gen = floor(now / ttl)
  start, length, since, kept = gen * ttl, ttl, gen * ttl, 0
  seen, steady, flow, rest, even = now, 0, now, PARTS - 1, now
end
if ttl > length then
  length, since = ttl, now
end
if now < start then
  start, since = now, now
end
local passed = floor((now - start) / length)
gen, start = gen + passed, start + passed * length
local alive = lepoch == epoch and lgen <= gen and lgen >= gen - 1

-- The flow: slower than the clock by the shares of regions that are not heard.
local before, aside = steady, 0
if now < seen then
  seen, even = now, now
end
steady = steady + now - seen
flow = flow + now - seen
seen = now
local heard, rgen, rcur, rprev, gapfrom, gapto = 0, 0, 0, 0, -1, 0
for i = 1, shares do
  local state = stored[1 + levels + i]
  if state and #state == 48 then
    local h, g, c, p, from, to = unpack_('<dddddd', state)
    if i == mine then
      heard, rgen, rcur, rprev, gapfrom, gapto = h, g, c, p, from, to
    end
    local silent = steady - max(before, h + SILENT)
    if c + p > 0 and silent > 0 then
      local parts = unpack_('<d', ARGV[2], 104 * levels + 8 * i - 7)
      flow = flow - floor(silent / PARTS) * parts
      rest = rest + silent % PARTS * parts
      even = now
      if i ~= mine then
        aside = aside + parts
      end
    end
  end
end
flow = flow - floor(rest / PARTS)
rest = rest % PARTS

-- began answers when generation n began, by the flow.
local function began(n)
  local t = max(start - (gen - n) * length, min(since, start))
  return flow - (now - max(t, even))
end

-- refill answers level, stamp and part of a rate as they are at a time, beside what routers hold.
local function refill(level, stamp, part, to, top, amount, period, unit, burst)
  level, part = min(max(level, -burst), top), min(part, period - 1)
  if to < stamp then
    stamp = to
  end
  local units = floor((to - stamp) / unit)
  if units >= floor(((top - level) * period - part + amount - 1) / amount) then
    return top, to, 0
  end
  local inflow = units * amount + part
  local whole = floor(inflow / period)
  return level + whole, stamp + units * unit, inflow - whole * period
end

local path = {}
local share = GRAIN
local at = 1
for i = 1, levels do
  local form, amount, period, unit, burst, cold, want, used, back, refund, from, next, spent
  form, amount, period, unit, burst, cold, want, used, back, refund, from, next, spent, at =
    unpack_('<ddddddddddddd', ARGV[2], at)
  local inside = now >= from and now < next
  if not inside then
    from, spent = now < from and from or next, -1
  end
  local level, stamp, part, stamped, cur, prev
  if stored[i + 1] and #stored[i + 1] == 48 then
    level, stamp, part, stamped, cur, prev = unpack_('<dddddd', stored[i + 1])
  else
    stamped, cur, prev = gen, 0, 0
    cold = floor(burst / 100) * cold + floor(burst % 100 * cold / 100)
    level, stamp, part = cold, lost, 0
    if form == SLOTS then
      level, stamp = 0, 0
    elseif form == MONEY then
      level, stamp, part = burst, from, burst
      if spent >= 0 then
        level = max(burst - spent, -burst)
      elseif lost >= from or lost >= 0 and now < from then
        level, part = cold, -burst -- nobody knows what was spent
      end
    elseif lost < 0 then
      level, stamp = burst, flow
    end
  end

  -- What is over, and what has flowed in.
  if stamped < gen then
    local t = began(stamped + 1)
    if form == RATE and prev > 0 and t > stamp then
      level, stamp, part = refill(level, stamp, part, t, max(burst - cur - prev, -burst), amount, period, unit, burst)
    end
    prev, cur = cur, 0
    if stamped + 1 < gen then
      t = began(stamped + 2)
      if form == RATE and prev > 0 and t > stamp then
        level, stamp, part = refill(level, stamp, part, t, max(burst - prev, -burst), amount, period, unit, burst)
      end
      prev = 0
    end
  end
  local room = burst
  if form == SLOTS and amount == 1 then
    room = burst - floor(burst / PARTS) * aside - floor((burst % PARTS * aside + PARTS - 1) / PARTS)
  end
  local top = max(room - cur - prev, -burst)
  if form == RATE then
    level, stamp, part = refill(level, stamp, part, flow, top, amount, period, unit, burst)
  elseif form == SLOTS then
    level, stamp, part = top, 0, 0
  else
    if now >= from and stamp < from then
      level, stamp, part = top, from, burst
    elseif inside and stamp > next then
      stamp = from -- a router whose clock was far ahead asked first
    end
    if part < 0 and spent >= 0 then
      part = -part
      level = level + max(part - spent, -part) - (floor(part / 100) * cold + floor(part % 100 * cold / 100))
    end
    if part > 0 then
      level, part = level + burst - part, burst
    end
    level = min(max(level, -burst), top)
  end

  -- What the router tells.
  local held = 0
  local place = 33 + 40 + (i - 1) * 24 + 16
  if lepoch == epoch and #known[2] >= place + 7 then
    held = unpack_('<d', known[2], place)
  end
  local covered = min(used, held)
  local change = refund - (used - covered)
  local carried = 0
  if alive then
    if lgen == gen then
      cur = max(cur - held, 0)
    else
      prev = max(prev - held, 0)
    end
    local returned = min(back, held - covered)
    carried = held - covered - returned
    cur = cur + carried
    change = change + returned
  elseif form == MONEY then
    change = change + held - covered
  end
  top = max(room - cur - prev, -burst)
  if form == SLOTS then
    level = top
  else
    level = min(max(level + change, -burst), top)
  end

  local there = max(level, 0)
  if there < want then
    share = min(share, floor((there * GRAIN + want - 1) / want))
  end
  path[i] = {form, want, carried, level, stamp, part, cur, prev}
end

-- An idle hash goes away once its buckets are surely full and its leases over. The time is only
-- ever put off, by ten seconds more than needed, so that this writes once in ten seconds.
local needed = floor(now / 1000) + keep
local extend = kept < needed
if extend then
  kept = needed + 10000
end

local write = {'', pack('<dddddddddd', gen, start, length, since, kept, seen, steady, flow, rest, even)}
local answer = {''}
local busy = 0
for i = 1, #path do
  local s = path[i]
  local form, want, held, level, stamp, part, cur, prev = s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8]
  local granted = min(floor((want * share + GRAIN - 1) / GRAIN), max(level, 0))
  level, cur, held = level - granted, cur + granted, held + granted
  if held > 0 or want > 0 then
    busy = 1
  end
  write[2 * i + 1] = names[i + 1]
  write[2 * i + 2] = pack('<dddddd', level, stamp, part, gen, cur, prev)
  answer[i + 1] = pack('<ddd', granted, level, held)
end

-- The caller's region is heard.
local from, to = 0, 0
if mine > 0 then
  if rcur + rprev > 0 and steady > heard + SILENT then
    gapfrom, gapto = heard + SILENT, steady
  end
  if rgen < gen then
    rprev, rcur = rcur, 0
    if rgen + 1 < gen then
      rprev = 0
    end
  end
  if alive and lbusy == 1 then
    if lgen == gen then
      rcur = max(rcur - 1, 0)
    else
      rprev = max(rprev - 1, 0)
    end
  end
  write[#write + 1] = names[1 + levels + mine]
  write[#write + 1] = pack('<dddddd', steady, gen, rcur + busy, rprev, gapfrom, gapto)
  from, to = ALWAYS, steady - gapto
  if gapfrom >= 0 then
    from = steady - gapfrom
  end
end
answer[1] = pack('<ddddd', 1, epoch, ttl, from, to)
local reply = table.concat(answer)
redis.call('HSET', KEYS[1], unpack(write))
redis.call('SET', KEYS[3], pack('<dddd', epoch, seq, gen, busy) .. reply, 'PX', lanekeep)
if extend then
  redis.call('PEXPIRE', KEYS[1], keep + 10000)
end
return reply
