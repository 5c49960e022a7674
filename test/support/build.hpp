// SPDX-License-Identifier: MIT
// How the test was built. Under ThreadSanitizer everything takes ten times as long; all sanitizers turn mlock into
// nothing and take most of the address space for themselves.
#pragma once

#if defined(__has_feature)
#define COFFER_HAS_FEATURE(x) __has_feature(x)
#else
#define COFFER_HAS_FEATURE(x) 0
#endif

namespace coffer::test {

#if defined(__SANITIZE_THREAD__) || COFFER_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#if defined(__SANITIZE_ADDRESS__) || COFFER_HAS_FEATURE(address_sanitizer)
inline constexpr bool kSanitizer = true;
#else
inline constexpr bool kSanitizer = kThreadSanitizer;
#endif

}  // namespace coffer::test

#undef COFFER_HAS_FEATURE
