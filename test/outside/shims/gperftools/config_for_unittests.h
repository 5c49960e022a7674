/* SPDX-License-Identifier: MIT */
/* What gperftools' configure finds out, of what these tests ask. */
#pragma once
#define HAVE_MALLOC_H 1
#define HAVE_STDINT_H 1
#define HAVE_UNISTD_H 1
