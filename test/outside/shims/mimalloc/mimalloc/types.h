/* SPDX-License-Identifier: MIT */
/* Of mimalloc's inside, what its tests take sizes from. */
#pragma once
#define MI_DEBUG 0
#define MI_QSBR 1
#define MI_INTPTR_BITS 64
#define MI_SIZE_SIZE 8
#define MI_MAX_ALIGN_SIZE 16
#define MI_PAGE_MAX_OVERALLOC_ALIGN ((size_t)64 << 10)
