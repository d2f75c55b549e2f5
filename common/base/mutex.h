#pragma once

// Mutexes whose use clang checks: Mutex, MutexLock and CondVar. A data member is annotated with the
// mutex that guards it, and a private method with the mutex that its caller must hold. clang
// rejects access without that mutex (-Wthread-safety); g++ does not check. The classes wrap
// std::mutex and std::condition_variable at no extra cost. docs/architecture/threads.md lists which
// thread may take which lock.
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

// For a member: read and written with the mutex held only.
#define RINGMASTER_GUARDED_BY(mutex) RINGMASTER_THREAD_ATTRIBUTE(guarded_by(mutex))
// For a function or lambda: its caller holds the mutexes, or must not.
#define RINGMASTER_REQUIRES(...) RINGMASTER_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define RINGMASTER_EXCLUDES(...) RINGMASTER_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
// For a function: not checked. Say why.
#define RINGMASTER_NO_THREAD_SAFETY_ANALYSIS RINGMASTER_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace ringmaster {

// Not recursive. Held through MutexLock.
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

// Holds the mutex until its end, but for the time between Unlock() and Lock().
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

  // REQUIRES: held.
  void Unlock() RINGMASTER_THREAD_ATTRIBUTE(release_capability()) {
    held_ = false;
    mutex_.Unlock();
  }
  // REQUIRES: not held.
  void Lock() RINGMASTER_THREAD_ATTRIBUTE(acquire_capability()) {
    mutex_.Lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

// Lets go of a mutex that its caller holds, until its end.
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

// Waits let go of the mutex meanwhile and hold it again when they return, and while they ask
// `done`. Those with a limit return whether it is done. `done` is a lambda that REQUIRES the mutex:
// its calls cannot be checked here, where the mutex has another name.
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

  // Until any notice.
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
  // The lock that is held already, and stays so.
  struct Adopted {
    explicit Adopted(std::mutex& mutex) : lock(mutex, std::adopt_lock) {}
    ~Adopted() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable changed_;
};

// A CondVar whose waits a stop request ends as well. It costs a second lock for each notice.
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

  // Without a stop request.
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
