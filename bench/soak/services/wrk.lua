-- SPDX-License-Identifier: MIT
-- For wrk: GET PREFIX/KEY/SIZE with keys below the first argument, the prefixes in turn; afterwards the whole histogram.
local keys, prefixes, count = 1, {}, 0

function init(words)
  keys = tonumber(words[1])
  for i = 2, #words do prefixes[i - 1] = words[i] end
  wrk.headers["Accept-Encoding"] = "gzip"
  math.randomseed(7)
end

function request()
  count = count + 1
  local path = prefixes[count % #prefixes + 1]
  -- Many small ones and few large ones.
  local size = math.floor(4 ^ (math.random() * 5))
  return wrk.format("GET", path .. "/" .. math.random(0, keys - 1) .. "/" .. size)
end

function done(summary, latency, requests)
  local errors = summary.errors
  print(string.format("errors connect=%d read=%d write=%d status=%d timeout=%d", errors.connect, errors.read,
    errors.write, errors.status, errors.timeout))
  for i = 1, #latency do
    local value, times = latency(i)
    print(string.format("latency %d %d", value, times))
  end
end
