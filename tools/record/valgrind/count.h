/* SPDX-License-Identifier: MIT */
// What the recorder asks valgrind's tool (count.c). 0 means that nobody heard it.
#pragma once

// How many instructions the calling thread has executed, and 1.
#define COFFER_COUNT ((unsigned long)'C' << 24 | (unsigned long)'F' << 16)
// Not to count those from one address to another, from now on; 1.
#define COFFER_LEAVE_OUT (COFFER_COUNT + 1)
