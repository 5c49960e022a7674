// SPDX-License-Identifier: MIT
#include "probe.h"

int main(void) { return probe_report(probe_counts(malloc, free)); }
