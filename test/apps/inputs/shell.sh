#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Arrays, strings, command substitution and pipelines. A subshell is a fork that runs on in the child's copy of the
# heap.
set -euo pipefail

words=()
for ((i = 0; i < 20000; i++)); do words+=("word$((i * 7919 % 10007))"); done
declare -A count
for word in "${words[@]}"; do count[$word]=$((${count[$word]:-0} + 1)); done
echo "words ${#words[@]} distinct ${#count[@]}"

text=""
for ((i = 0; i < 3000; i++)); do
  text+="${words[i]}-"
  ((i % 7)) || text=${text#*-}
done
upper=${text^^}
echo "text ${#text} ${upper:100:60} ${text//[0-9]/}" | cut -c 1-200

total=0
for ((i = 0; i < 200; i++)); do
  part=$(for ((j = 0; j < 50; j++)); do echo "${words[i + j]}"; done; echo "${#count[@]}")
  total=$((total + ${#part}))
done
echo "subshells $total"

(
  for key in "${!count[@]}"; do unset "count[$key]"; done
  echo "emptied ${#count[@]}"
)
echo "kept ${#count[@]}"

for ((i = 0; i < 400000; i++)); do echo $((i * 48271 % 2147483647)); done |
  sort --parallel=2 --buffer-size=2M --numeric-sort | awk '{ s[$1 % 1000] = s[$1 % 1000] $1; n += NR * ($1 % 97) }
    END { for (i = 0; i < 1000; i++) l += length(s[i]); print "sorted", n, l }'
printf '%s\n' "${words[@]}" | sed -E 's/(word)([0-9]+)/\2\1/' | grep -E '^1.*7' |
  sort | uniq -c | sort -rn | sed -n 1,5p
echo done
