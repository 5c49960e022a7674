# SPDX-License-Identifier: MIT
# Which cases the papers' allocators are asked.

# Left out for all of them, for they do not have it: give-back (reclaimer, malloc_trim), the limit, COFFER_CONF's arena,
# a list of the system calls that they make, a report of wrong frees; and their locks are held by a thread that forks,
# for which others wait.
set(papers_lack
  "fork[.](fork_while_streams_are_used.*|fork_twice_in_a_signal_handler)"
  "reclaimer[.].*"
  "sandbox[.].*"
  "contract[.](malloc_trim_gives_memory_back|a_wrong_free_on_the_smallest_stack)"
  "limits[.](exhausted_resident_limit|resident_limit|limit_lowered_at_run_time|exhausted_small_arena)")
# In `make test-long`, or with COFFER_PAPERS_ALL_TESTS, for their time: they look for rare meetings of threads in places
# that these allocators share with Coffer, or run the same again under one more setting, or take hundreds of thousands
# of blocks that have a mapping each here.
set(papers_long
  "fork[.]fork_while_threads_allocate"
  "dlopen[.].*"
  "signals[.].*"
  "seccomp[.]every_madvise_.*"
  "seccomp[.]every_(mremap|munmap|membarrier|getrandom|prctl)_fails"
  "contract[.](all_usable_bytes_are_writable|free_keeps_errno|calloc_is_zero_after_dirty_reuse)"
  "locked[.].*"
  "threads[.](huge_pages_always|blocks_freed_while_their_owner_dies|threads_die_and_others_free)"
  "lifetime[.]key_destructors_in_every_round"
  "limits[.]overcommit_refused")
# Empty spans of 32 KiB keep their pages (paper 2, section 3.3), those of ended threads too.
set(scalloc_lacks "threads[.]two_thousand_threads_alive")
# Other arguments. A CIF block of 30,000 bytes takes a superblock of 64 KiB for itself: with a header before them, two
# blocks of half a superblock do not fit into one.
set(papers_arguments_cif_sixty_four_threads_in_256_mib 90)
list(JOIN papers_lack "|" papers_lack)
list(JOIN papers_long "|" papers_long)

# The labels of the case's test; empty: not asked.
function(paper_case_labels paper case result)
  set(${result} papers PARENT_SCOPE)
  if(case MATCHES "^(${papers_lack}|${${paper}_lacks})$")
    set(${result} "" PARENT_SCOPE)
  elseif(NOT COFFER_PAPERS_ALL_TESTS AND case MATCHES "^(${papers_long})$")
    set(${result} papers long PARENT_SCOPE)
  endif()
endfunction()
