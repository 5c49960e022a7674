// SPDX-License-Identifier: MIT
// The object with the constructor and destructor has no function that anyone calls; this name is for others to refer to
// it, so that a program that links an archive gets it.
#pragma once

namespace coffer::api {

extern const char lifetime_linked;

}  // namespace coffer::api
