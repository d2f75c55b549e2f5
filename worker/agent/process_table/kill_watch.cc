#include "worker/agent/process_table/kill_watch.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <limits>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "worker/agent/process_table/thread_list.h"

namespace ringmaster::agent {
namespace {

// The interval at which the thread checks whether its watch has ended.
constexpr timespec kTurn{.tv_sec = 1, .tv_nsec = 0};
// Limits how often the thread wakes, because a rank may wake it or change the word at any rate.
constexpr int kMostWakes = 100;
// The watch reads /proc several times, because the threads of a process end at different times.
constexpr int kLooks = 20;
constexpr std::chrono::milliseconds kBetweenLooks{2};

}  // namespace

// The state that the watch and its thread share.
class KillWatch::Wait {
 public:
  Wait(std::shared_ptr<const RankPage> page, KillWatch& watch)
      : page_(std::move(page)), watch_(watch) {}

  // Runs in the thread until the watch ends or the futex word no longer names a thread.
  void Run() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    for (int wakes = 0; wakes < kMostWakes && !Ended();) {
      const std::uint32_t word = page_->Owner()->load();
      if (page_->OwnerThread() == 0) return Notify();
      const long woken = syscall(SYS_futex, page_->Owner(), FUTEX_WAIT, word, &kTurn, nullptr, 0);
      if (woken == 0 || errno != ETIMEDOUT) ++wakes;
    }
  }

  void End() {
    const MutexLock lock(mutex_);
    ended_ = true;
    syscall(SYS_futex, page_->Owner(), FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr,
            nullptr, 0);
  }

  void Turn(bool killed, int times) {
    if (Ended()) return;
    if (killed) return watch_.on_killed_();
    watch_.Look(times);
  }

 private:
  bool Ended() {
    const MutexLock lock(mutex_);
    return ended_;
  }

  // Holds the lock while it posts, so that End() waits for it.
  void Notify() {
    const MutexLock lock(mutex_);
    if (ended_) return;
    boost::asio::post(watch_.again_.get_executor(),
                      [wait = watch_.wait_] { wait->Turn(false, kLooks); });
  }

  const std::shared_ptr<const RankPage> page_;
  KillWatch& watch_;  // lives until End()
  Mutex mutex_;
  bool ended_ RINGMASTER_GUARDED_BY(mutex_) = false;
};

std::unique_ptr<KillWatch> KillWatch::Start(boost::asio::io_context& io,
                                            std::shared_ptr<const RankPage> page, pid_t process,
                                            std::function<void()> on_killed) {
  if (page == nullptr || page->OwnerThread() == 0) return nullptr;
  std::unique_ptr<KillWatch> watch(new KillWatch(io, process, std::move(on_killed)));
  watch->wait_ = std::make_shared<Wait>(std::move(page), *watch);
  try {
    // The thread is detached, because it ends up to kTurn after the watch, and the agent's only
    // other thread must not wait for it.
    std::thread([wait = watch->wait_] { wait->Run(); }).detach();
  } catch (const std::system_error& error) {
    LogWarn("Failed to start the thread that detects killed ranks early",
            {{"reason", error.what()}});
    return nullptr;
  }
  return watch;
}

KillWatch::KillWatch(boost::asio::io_context& io, pid_t process, std::function<void()> on_killed)
    : process_(process), on_killed_(std::move(on_killed)), again_(io) {}

KillWatch::~KillWatch() {
  if (wait_ != nullptr) wait_->End();
}

void KillWatch::Look(int times) {
  const bool killed = IsBeingKilled(process_);
  if (!killed && times <= 1) return;
  // The delay leaves time to read the last output of a killed rank.
  again_.expires_after(kBetweenLooks);
  // The handler may be queued already when the watch ends, so the handler must not use `this`.
  again_.async_wait([wait = wait_, killed, times](const boost::system::error_code& cancelled) {
    if (!cancelled) wait->Turn(killed, times - 1);
  });
}

}  // namespace ringmaster::agent
