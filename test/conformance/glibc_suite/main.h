/* SPDX-License-Identifier: MIT */
/* The main function of a test of glibc's malloc, which includes this at its end; as <support/test-driver.c>, or as the
 * older "../test-skeleton.c" (GLIBC_SUITE_OLD), where TEST_FUNCTION is a call. */
#include "suite.h"

static int suite_run(int argc, char** argv) {
  (void)argc;
  (void)argv;
#if defined(TEST_FUNCTION_ARGV)
  return TEST_FUNCTION_ARGV(argc, argv);
#elif defined(TEST_FUNCTION) && defined(GLIBC_SUITE_OLD)
  return TEST_FUNCTION;
#elif defined(TEST_FUNCTION)
  return TEST_FUNCTION();
#elif defined(GLIBC_SUITE_OLD)
  return do_test(argc, argv);
#else
  return do_test();
#endif
}

int main(int argc, char** argv) {
#ifdef EXPECTED_SIGNAL
  const pid_t child = xfork();
  if (child != 0) {
    int status = 0;
    xwaitpid(child, &status, 0);
    return !(WIFSIGNALED(status) && WTERMSIG(status) == EXPECTED_SIGNAL);
  }
#endif
  const int result = suite_run(argc, argv);
  return result != 0 ? result : suite_failures;
}
