/* SPDX-License-Identifier: MIT */
#pragma once
#include "../tcmalloc.h"
