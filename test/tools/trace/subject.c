// SPDX-License-Identifier: MIT
// What the tests of the recorder record: subject WHAT [NUMBER [SIZE]]. Each mode prints "done" when all went as it
// should.
#define _GNU_SOURCE
#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

// Of modes with one thread: a compiler that sees that a block is never used would leave it out.
static void* volatile g_keep;
static void churn(long count, size_t size) {
  for (long i = 0; i < count; ++i) {
    void* volatile keep = malloc(size);  // other threads' own, so not g_keep
    free(keep);
  }
}

static void fork_mode(void) {
  churn(10, 100);
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      churn(1000, 200);
      _exit(7);
    }
    int status;
    assert(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    churn(5, 300);
  }
}

static void vfork_mode(void) {
  for (int i = 0; i < 50; ++i) {
    churn(3, 100);
    const pid_t child = vfork();
    if (child == 0) {
      execl("/bin/true", "true", (char*)NULL);
      _exit(1);
    }
    int status;
    assert(waitpid(child, &status, 0) == child && status == 0);
  }
}

static pthread_barrier_t g_barrier;
static pthread_key_t g_key;
static void* thread_body(void* given) {
  void** const slot = given;
  pthread_setspecific(g_key, malloc(77));
  *slot = malloc(1000);
  pthread_barrier_wait(&g_barrier);
  churn(10, 50);
  return NULL;
}

// All at one time; each leaves a block to main, and one to a destructor.
static void threads_mode(long count) {
  pthread_t* const threads = malloc((size_t)count * sizeof *threads);
  void** const blocks = calloc((size_t)count, sizeof *blocks);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 65536);
  pthread_key_create(&g_key, free);
  pthread_barrier_init(&g_barrier, NULL, (unsigned)count + 1);
  for (long i = 0; i < count; ++i) assert(pthread_create(&threads[i], &attributes, thread_body, &blocks[i]) == 0);
  pthread_barrier_wait(&g_barrier);
  for (long i = 0; i < count; ++i) assert(pthread_join(threads[i], NULL) == 0);
  for (long i = 0; i < count; ++i) free(blocks[i]);
  free(blocks);
  free(threads);
}

// A thousand threads that need chunks all the time.
static void* crowd_body(void* count) {
  churn((long)count, 100);
  return NULL;
}
static void crowd_mode(long count) {
  enum { kThreads = 1000 };
  static pthread_t threads[kThreads];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 65536);
  for (int i = 0; i < kThreads; ++i) assert(pthread_create(&threads[i], &attributes, crowd_body, (void*)count) == 0);
  for (int i = 0; i < kThreads; ++i) assert(pthread_join(threads[i], NULL) == 0);
}

// A relay: blocks go from thread to thread, and addresses are used again at once. Some wait in a ring, so that the
// threads need not take turns at each block: on a loaded machine a turn is a whole slice of another program's.
enum { kRelayed = 32 };
struct relay {
  void* _Atomic ring[kRelayed];
  long count;
};
static void* relay_body(void* given) {
  struct relay* const relay = given;
  for (long i = 0; i < relay->count;) {
    void* const block = __atomic_exchange_n((void**)&relay->ring[i % kRelayed], NULL, __ATOMIC_ACQUIRE);
    if (block == NULL) {
      sched_yield();
      continue;
    }
    free(block);
    ++i;
  }
  return NULL;
}
static void relay_mode(long count) {
  struct relay relay = {{NULL}, count};
  pthread_t thread;
  assert(pthread_create(&thread, NULL, relay_body, &relay) == 0);
  for (long i = 0; i < count; ++i) {
    void* const block = malloc(64);
    void** const place = (void**)&relay.ring[i % kRelayed];
    while (__atomic_load_n(place, __ATOMIC_RELAXED) != NULL) sched_yield();
    __atomic_store_n(place, block, __ATOMIC_RELEASE);
  }
  pthread_join(thread, NULL);
}

static volatile sig_atomic_t g_signals;
static volatile long g_in_handler;
static void handler(int number) {
  (void)number;
  const int saved = errno;
  ++g_signals;
  free(malloc(500));
  ++g_in_handler;
  errno = saved;
}
// For an allocator whose malloc may be interrupted by itself. Prints how many blocks were allocated.
static void signals_mode(long count) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  churn(count, 40);
  setitimer(ITIMER_REAL, &never, NULL);
  fprintf(stderr, "allocated %ld\n", count + g_in_handler);
}

// Ever new stacks, whose records are long, and a handler that uses up any part of what room there was.
static void handler_of_many(int number) {
  (void)number;
  const int saved = errno;
  for (long i = ++g_in_handler % 60; i >= 0; --i) free(malloc(16));
  errno = saved;
}
__attribute__((noinline)) static void descend(unsigned long way, int depth) {
  if (depth == 0) {
    churn(1, 40);
  } else if ((way & 1) != 0) {
    descend(way >> 1 | way << 63, depth - 1);
    __asm__ volatile("");
  } else {
    descend(way >> 1 | way << 63, depth - 1);
    __asm__ volatile("nop");
  }
}
static void deep_mode(long count) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler_of_many;
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  for (long i = 0; i < count; ++i) descend((unsigned long)(i + 1) * 0x9e3779b97f4a7c15u, 230);
  setitimer(ITIMER_REAL, &never, NULL);
}

// Writes over what it shares with the collector: the places of chunks in their thread's order.
static void scribble_mode(long count) {
  churn(10000, 100);
  FILE* const maps = fopen("/proc/self/maps", "r");
  char line[512];
  unsigned long begin = 0, end = 0;
  while (fgets(line, sizeof line, maps) != NULL && strstr(line, "memfd:coffer-record") == NULL) continue;
  assert(sscanf(line, "%lx-%lx rw", &begin, &end) == 2);
  fclose(maps);
  for (unsigned long head = begin + 4096; head < begin + 4096 + 64L * 600; head += 64) ((unsigned*)head)[3] += 1000;
  churn(count, 100);
}

static void kill_mode(long count) {
  for (long i = 0; i < count; ++i) g_keep = malloc(24);
  fputs("about to die\n", stderr);
  kill(getpid(), SIGKILL);
}

static void functions_mode(void) {
  void* aligned = NULL;
  assert(posix_memalign(&aligned, 4096, 100) == 0);
  void *const other = aligned_alloc(64, 640), *const page = valloc(10);
  char* const zero = calloc(10, 10);
  char* text = malloc(10);
  text = realloc(text, 1000000);
  void* volatile huge = malloc((size_t)1 << 60);
  assert(huge == NULL && errno == ENOMEM);
  errno = 5;
  g_keep = realloc(NULL, 33);
  free(g_keep);
  free(text), free(zero), free(page), free(other), free(aligned), free(NULL);
  assert(errno == 5);
}

static void dlopen_mode(void) {
  for (int i = 0; i < 30; ++i) {
    void *const library = dlopen("libz.so.1", RTLD_NOW), *const none = dlopen("/nowhere/none.so", RTLD_NOW);
    assert(none == NULL && dlerror() != NULL && dlerror() == NULL);
    churn(10, 10);
    if (library != NULL) dlclose(library);
  }
}

// Libraries come and go while other threads allocate.
static volatile int g_stop;
static void* loads(void* count) {
  static const char* const names[] = {"libz.so.1", "libzstd.so.1", "liblzma.so.5", "libm.so.6"};
  for (long i = 0; i < (long)count; ++i) {
    void* const library = dlopen(names[i % 4], RTLD_NOW);
    if (library != NULL) dlclose(library);
  }
  return NULL;
}
static void* allocates(void* unused) {
  while (!g_stop) churn(100, 100);
  return unused;
}
static void loading_mode(long count) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) assert(pthread_create(&threads[i], NULL, i < 2 ? loads : allocates, (void*)count) == 0);
  for (int i = 0; i < 4; ++i) {
    g_stop = i >= 2;
    pthread_join(threads[i], NULL);
  }
}

// What the program sees of itself: descriptors, threads, signal mask, dlerror, and that no environment is missing.
static void look_mode(void) {
  churn(100000, 10);
  int descriptors = 0, threads = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != NULL) ++descriptors;
  closedir(folder);
  folder = opendir("/proc/self/task");
  while (readdir(folder) != NULL) ++threads;
  closedir(folder);
  sigset_t mask;
  sigprocmask(SIG_SETMASK, NULL, &mask);
  int blocked = 0;
  for (int i = 1; i < 65; ++i) blocked += sigismember(&mask, i) == 1;
  struct sigaction pipe_action;
  sigaction(SIGXFSZ, NULL, &pipe_action);
  printf("descriptors %d threads %d blocked %d error %s handler %d\n", descriptors - 2, threads - 2, blocked,
         dlerror() == NULL ? "none" : "some", pipe_action.sa_handler == SIG_DFL);
}

static void lock_mode(void) {
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) fputs("not allowed to lock\n", stderr);
  churn(100000, 100);
  munlockall();
}

static void slow_mode(long count) {
  for (long i = 0; i < count; ++i) {
    churn(1000, 100);
    printf("%ld\n", i + 1);
    fflush(stdout);
    usleep(1000);
  }
}

// Before main, as a library's constructor.
static void* g_early;
__attribute__((constructor(101))) static void begin(void) { g_early = malloc(31); }

// Two blocks, with 1,000 instructions more before the second. (On other processors nop is one, too.)
static void gaps_mode(long count) {
  for (long i = 0; i < count; ++i) {
    g_keep = malloc(2001);
    free(g_keep);
    __asm__ volatile(".rept 1000\n\tnop\n\t.endr" ::: "memory");
    g_keep = malloc(2002);
    free(g_keep);
    __asm__ volatile("" ::: "memory");
  }
}
static void* gaps_body(void* count) {
  gaps_mode((long)count);
  return NULL;
}

__attribute__((noinline)) static void inner(void) { free((g_keep = malloc(12345))); }
__attribute__((noinline)) static void outer(void) {
  inner();
  __asm__ volatile("");
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  const long count = argc > 2 ? atol(argv[2]) : 1000;
  free(g_early);
  if (!strcmp(what, "count"))
    churn(count, argc > 3 ? (size_t)atol(argv[3]) : 100);
  else if (!strcmp(what, "fork"))
    fork_mode();
  else if (!strcmp(what, "vfork"))
    vfork_mode();
  else if (!strcmp(what, "threads"))
    threads_mode(count);
  else if (!strcmp(what, "crowd"))
    crowd_mode(count);
  else if (!strcmp(what, "relay"))
    relay_mode(count);
  else if (!strcmp(what, "signals"))
    signals_mode(count);
  else if (!strcmp(what, "deep"))
    deep_mode(count);
  else if (!strcmp(what, "scribble"))
    scribble_mode(count);
  else if (!strcmp(what, "kill"))
    kill_mode(count);
  else if (!strcmp(what, "functions"))
    functions_mode();
  else if (!strcmp(what, "dlopen"))
    dlopen_mode();
  else if (!strcmp(what, "loading"))
    loading_mode(count);
  else if (!strcmp(what, "look"))
    look_mode();
  else if (!strcmp(what, "lock"))
    lock_mode();
  else if (!strcmp(what, "slow"))
    slow_mode(count);
  else if (!strcmp(what, "gaps")) {
    gaps_mode(count);
    pthread_t thread;
    assert(pthread_create(&thread, NULL, gaps_body, (void*)count) == 0);
    pthread_join(thread, NULL);
  } else if (!strcmp(what, "stacks"))
    outer();
  else if (!strcmp(what, "exec")) {
    churn(count, 100);
    execl("/proc/self/exe", argv[0], "count", "500", (char*)NULL);
  } else if (!strcmp(what, "status"))
    return (int)count;
  else
    return 2;
  puts("done");
  return 0;
}
