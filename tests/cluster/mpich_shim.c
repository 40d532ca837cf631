// Preloaded into the tasks of the virtual test cluster, never part of the product: two cures for MPICH 4.0.2 over UCX
// (Debian 12), on nodes that are namespaces of one busy machine.
//
// 1. MPI_Finalize may hang between network namespaces: a rank that has closed its UCX endpoints blocks in the PMI
//    barrier's read() and no longer answers peers whose own closing needs an answer. Here that read() polls and keeps
//    UCX progressing.
// 2. With more ranks than cores MPICH spins while the rank it waits for has no core. Here every fruitless poll yields,
//    and after 50 of them in a row each one sleeps 20 us.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

enum { max_workers = 64, polls_before_nap = 50, nap_us = 20 };

static void* workers[max_workers];
static volatile int worker_count;
static volatile int finalizing;

unsigned ucp_worker_progress(void* worker) {
  static unsigned (*real)(void*);
  static __thread unsigned idle_polls;
  if (!real) real = (unsigned (*)(void*))dlsym(RTLD_NEXT, "ucp_worker_progress");
  const unsigned progressed = real(worker);
  if (progressed) {
    idle_polls = 0;
  } else if (++idle_polls >= polls_before_nap) {
    usleep(nap_us);
  } else {
    sched_yield();
  }
  return progressed;
}

int ucp_worker_create(void* context, const void* parameters, void** worker) {
  static int (*real)(void*, const void*, void**);
  if (!real) real = (int (*)(void*, const void*, void**))dlsym(RTLD_NEXT, "ucp_worker_create");
  const int status = real(context, parameters, worker);
  if (status == 0 && worker_count < max_workers) workers[worker_count++] = *worker;
  return status;
}

void ucp_worker_destroy(void* worker) {
  static void (*real)(void*);
  if (!real) real = (void (*)(void*))dlsym(RTLD_NEXT, "ucp_worker_destroy");
  for (int i = 0; i < worker_count; ++i) {
    if (workers[i] == worker) {
      workers[i] = workers[--worker_count];
      break;
    }
  }
  real(worker);
}

int MPI_Finalize(void) {
  static int (*real)(void);
  if (!real) real = (int (*)(void))dlsym(RTLD_NEXT, "MPI_Finalize");
  finalizing = 1;
  const int status = real();
  finalizing = 0;
  return status;
}

static void progress_until_readable(int descriptor) {
  struct pollfd poll_for = {.fd = descriptor, .events = POLLIN};
  while (poll(&poll_for, 1, 1) == 0) {
    for (int i = 0; i < worker_count; ++i) ucp_worker_progress(workers[i]);
  }
}

ssize_t read(int descriptor, void* buffer, size_t size) {
  static ssize_t (*real)(int, void*, size_t);
  if (!real) real = (ssize_t(*)(int, void*, size_t))dlsym(RTLD_NEXT, "read");
  const char* pmi = getenv("PMI_FD");
  if (finalizing && pmi && atoi(pmi) == descriptor) progress_until_readable(descriptor);
  return real(descriptor, buffer, size);
}
