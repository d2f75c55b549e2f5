#pragma once

// Mutexes that clang checks at compile time: Mutex, MutexLock and CondVar. Annotate a data member
// with the mutex that guards it, and a private method with the mutex that its caller must hold.
// clang rejects access without that mutex (-Wthread-safety); g++ does not check. The classes wrap
// std::mutex and std::condition_variable at no extra cost. docs/architecture/threads.md lists the
// locks that each thread may take.
//
//   mutable Mutex mutex_;
//   CondVar changed_;
//   std::deque<Task> tasks_ RINGMASTER_GUARDED_BY(mutex_);
//
//   MutexLock lock(mutex_);
//   changed_.Wait(mutex_, [this]() RINGMASTER_REQUIRES(mutex_) { return !tasks_.empty(); });

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

#ifdef __clang__
#define RINGMASTER_THREAD_ATTRIBUTE(...) __attribute__((__VA_ARGS__))
#else
#define RINGMASTER_THREAD_ATTRIBUTE(...)
#endif

// For a data member: code must hold the mutex to read or write it.
#define RINGMASTER_GUARDED_BY(mutex) RINGMASTER_THREAD_ATTRIBUTE(guarded_by(mutex))
// For a function or lambda: the caller must (REQUIRES) or must not (EXCLUDES) hold the mutexes.
#define RINGMASTER_REQUIRES(...) RINGMASTER_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define RINGMASTER_EXCLUDES(...) RINGMASTER_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
// Turns the check off for a function. Explain why at each use.
#define RINGMASTER_NO_THREAD_SAFETY_ANALYSIS RINGMASTER_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace ringmaster {

// Not recursive. Lock it with a MutexLock.
class RINGMASTER_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() RINGMASTER_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void Unlock() RINGMASTER_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  friend class StoppableCondVar;

  std::mutex mutex_;
};

// The constructor locks the mutex, and the destructor unlocks it if it is still locked.
class RINGMASTER_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) RINGMASTER_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() RINGMASTER_THREAD_ATTRIBUTE(release_capability()) {
    if (held_) mutex_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // REQUIRES: the mutex is held.
  void Unlock() RINGMASTER_THREAD_ATTRIBUTE(release_capability()) {
    held_ = false;
    mutex_.Unlock();
  }
  // REQUIRES: the mutex is not held.
  void Lock() RINGMASTER_THREAD_ATTRIBUTE(acquire_capability()) {
    mutex_.Lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

// Releases a mutex that the caller holds, and locks it again when destroyed.
class RINGMASTER_THREAD_ATTRIBUTE(scoped_lockable) MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) RINGMASTER_THREAD_ATTRIBUTE(release_capability(mutex))
      : mutex_(mutex) {
    mutex_.Unlock();
  }
  ~MutexUnlock() RINGMASTER_THREAD_ATTRIBUTE(release_capability()) { mutex_.Lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

// A wait releases the mutex while it blocks. The mutex is locked while `done` runs and on return. A
// wait with both a limit and `done` returns the last result of `done`. Annotate the lambda `done`
// with REQUIRES: clang cannot check calls of `done` here, where the mutex has another name.
class CondVar {
 public:
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

  template <typename Done>
  void Wait(Mutex& mutex, Done done)
      RINGMASTER_REQUIRES(mutex) RINGMASTER_NO_THREAD_SAFETY_ANALYSIS {
    Adopted lock(mutex.mutex_);
    changed_.wait(lock.lock, std::move(done));
  }

  template <typename Done>
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline, Done done)
      RINGMASTER_REQUIRES(mutex) RINGMASTER_NO_THREAD_SAFETY_ANALYSIS {
    Adopted lock(mutex.mutex_);
    return changed_.wait_until(lock.lock, deadline, std::move(done));
  }

  // Waits for any notification, for at most `limit`.
  template <typename Rep, typename Period>
  void WaitFor(Mutex& mutex, std::chrono::duration<Rep, Period> limit) RINGMASTER_REQUIRES(mutex) {
    Adopted lock(mutex.mutex_);
    changed_.wait_for(lock.lock, limit);
  }

  template <typename Rep, typename Period, typename Done>
  bool WaitFor(Mutex& mutex, std::chrono::duration<Rep, Period> limit, Done done)
      RINGMASTER_REQUIRES(mutex) RINGMASTER_NO_THREAD_SAFETY_ANALYSIS {
    Adopted lock(mutex.mutex_);
    return changed_.wait_for(lock.lock, limit, std::move(done));
  }

 private:
  // Adopts a mutex that the caller has locked, and leaves it locked.
  struct Adopted {
    explicit Adopted(std::mutex& mutex) : lock(mutex, std::adopt_lock) {}
    ~Adopted() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable changed_;
};

// A CondVar whose waits also end on a stop request. Each notification locks an internal mutex.
class StoppableCondVar {
 public:
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

  template <typename Done>
  bool Wait(Mutex& mutex, std::stop_token stop, Done done)
      RINGMASTER_REQUIRES(mutex) RINGMASTER_NO_THREAD_SAFETY_ANALYSIS {
    return changed_.wait(mutex.mutex_, std::move(stop), std::move(done));
  }

  template <typename Done>
  bool WaitUntil(Mutex& mutex, std::stop_token stop, std::chrono::steady_clock::time_point deadline,
                 Done done) RINGMASTER_REQUIRES(mutex) RINGMASTER_NO_THREAD_SAFETY_ANALYSIS {
    return changed_.wait_until(mutex.mutex_, std::move(stop), deadline, std::move(done));
  }

  template <typename Rep, typename Period, typename Done>
  bool WaitFor(Mutex& mutex, std::stop_token stop, std::chrono::duration<Rep, Period> limit,
               Done done) RINGMASTER_REQUIRES(mutex) RINGMASTER_NO_THREAD_SAFETY_ANALYSIS {
    return changed_.wait_for(mutex.mutex_, std::move(stop), limit, std::move(done));
  }

  // The following waits ignore stop requests.
  template <typename Done>
  void Wait(Mutex& mutex, Done done)
      RINGMASTER_REQUIRES(mutex) RINGMASTER_NO_THREAD_SAFETY_ANALYSIS {
    changed_.wait(mutex.mutex_, std::move(done));
  }

  template <typename Rep, typename Period, typename Done>
  bool WaitFor(Mutex& mutex, std::chrono::duration<Rep, Period> limit, Done done)
      RINGMASTER_REQUIRES(mutex) RINGMASTER_NO_THREAD_SAFETY_ANALYSIS {
    return changed_.wait_for(mutex.mutex_, limit, std::move(done));
  }

 private:
  std::condition_variable_any changed_;
};

}  // namespace ringmaster
