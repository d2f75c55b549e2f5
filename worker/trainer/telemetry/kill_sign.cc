#include "worker/trainer/telemetry/kill_sign.h"

#include <atomic>
#include <csignal>
#include <latch>
#include <linux/futex.h>
#include <memory>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "common/base/log.h"
#include "common/control/position_page.h"

namespace ringmaster::trainer {
namespace {

// The robust futex list of the thread in Hold(). The kernel reads it when the thread ends.
struct {
  robust_list entry;
  robust_list_head head;
} list;

void Hold(std::atomic<uint32_t>* owner, std::latch* held) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "rm-kill-sign");
  list.entry.next = &list.head.list;
  list.head.list.next = &list.entry;
  list.head.futex_offset =
      reinterpret_cast<char*>(owner) - reinterpret_cast<char*>(&list.entry);  // any two addresses
  // Replaces the C library's list of robust mutexes; this thread does not lock any.
  if (syscall(SYS_set_robust_list, &list.head, sizeof list.head) == 0) {
    owner->store(static_cast<uint32_t>(gettid()) | FUTEX_WAITERS);
  }
  held->count_down();
  while (true) pause();
}

}  // namespace

void SignOfKillIn(int file) {
  void* const memory =
      mmap(nullptr, sizeof(control::PositionPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return;
  const auto held = std::make_shared<std::latch>(1);
  try {
    std::thread([page = static_cast<control::PositionPage*>(memory), held] {
      Hold(&page->owner, held.get());
    }).detach();
  } catch (const std::system_error& error) {
    LogWarn("Failed to start the thread that lets the agent detect a kill of this rank early",
            {{"reason", error.what()}});
    munmap(memory, sizeof(control::PositionPage));
    return;
  }
  held->wait();
}

}  // namespace ringmaster::trainer
