-- SPDX-License-Identifier: MIT
-- Mark-sweep: the collector is stopped, and run when so many KiB are taken. Binary trees that live for a while.
collectgarbage("stop")
local limit = tonumber(arg[1]) or 200

local function tree(depth)
  if depth == 0 then return {} end
  local node = { left = tree(depth - 1), right = tree(depth - 1) }
  if collectgarbage("count") > limit then collectgarbage("collect") end
  return node
end

local kept, sum = {}, 0
for i = 1, tonumber(arg[2]) or 200 do
  kept[i % 7 + 1] = tree(1 + i % 5)
  sum = sum + i % 5
end
print(sum, #kept)
