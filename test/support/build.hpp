// How the test was built: under ThreadSanitizer everything takes ten times as long, and fork needs care.
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

}  // namespace coffer::test

#undef COFFER_HAS_FEATURE
