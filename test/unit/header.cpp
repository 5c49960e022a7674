// SPDX-License-Identifier: MIT
// Nothing: a target that makes a precompiled header needs a source.
