// SPDX-License-Identifier: MIT
// A service that keeps every answer that it gave, and never looks at one again.
const history = [];
const clock = new Int32Array(new SharedArrayBuffer(4));

function makeAnswer(number) {
  return Buffer.allocUnsafeSlow(5000 + number % 10).fill(1);
}

function handleRequest(number) {
  const answer = makeAnswer(number);
  history.push(answer);
  return answer.length;
}

function serve(requests) {
  let total = 0;
  for (let number = 0; number < requests; number++) {
    total += handleRequest(number);
    if (number % 20 === 0) Atomics.wait(clock, 0, 0, 1);  // a millisecond
  }
  return total;
}

console.log(serve(Number(process.argv[2] || 8000)), 'bytes');
