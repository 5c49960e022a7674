// SPDX-License-Identifier: MIT
/* See ifunc.h. */
#define NAME library
#include "ifunc.h"
