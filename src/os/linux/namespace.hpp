// SPDX-License-Identifier: MIT
// The Linux implementation lies in coffer::os, unless a test build gives it another name to put os/fake before it.
#pragma once

#ifndef COFFER_OS_NAMESPACE
#define COFFER_OS_NAMESPACE os
#endif
