/* SPDX-License-Identifier: MIT */
/* In place of gperftools' header: the C library's functions are all that is tested. */
#pragma once
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
