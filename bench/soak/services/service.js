// SPDX-License-Identifier: MIT
// service.js PORT: answers GET /task/KEY/SIZE.
"use strict";
const http = require("http"), zlib = require("zlib");
const KEPT = 300;
const kept = new Map();

function make(key, size) {
  const rows = [];
  for (let i = 0; i < size; ++i) rows.push({ id: key * 1000 + i, name: `row ${i} of ${key}`, values: [i % 10, i * 0.5] });
  return { key, rows };
}

http.createServer((request, response) => {
  const [, what, key, size] = request.url.split("/");
  if (what !== "task") { response.statusCode = 404; return response.end("nothing here\n"); }
  const text = JSON.stringify(make(+key, +size));
  zlib.deflate(text, { level: 1 }, (error, packed) => {
    if (error || zlib.inflateSync(packed).toString() !== text) {
      response.statusCode = 500;
      return response.end("what came back is not what was packed\n");
    }
    const block = Buffer.allocUnsafeSlow(200 + 64 * +size);
    packed.copy(block);
    kept.delete(key);
    kept.set(key, block);
    while (kept.size > KEPT) kept.delete(kept.keys().next().value);
    response.end(`${packed.length} ${kept.size}\n`);
  });
}).listen(+process.argv[2], "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
