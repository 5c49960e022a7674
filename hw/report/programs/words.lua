-- SPDX-License-Identifier: MIT
-- Mark-sweep: the collector is stopped, and run when so many KiB are taken. Strings of all lengths in tables that grow.
collectgarbage("stop")
local limit = tonumber(arg[1]) or 200
local seed = 42

local function random(most)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed // 256 % most
end

local words, length = {}, 0
for i = 1, tonumber(arg[2]) or 4000 do
  words[#words + 1] = string.rep(string.char(97 + random(26)), 1 + random(60)) .. i
  if random(3) == 0 then table.remove(words, 1 + random(#words)) end
  if #words > 200 then words = table.move(words, 100, #words, 1, {}) end
  length = length + #words[#words]
  if collectgarbage("count") > limit then collectgarbage("collect") end
end
print(length, #table.concat(words, " "))
