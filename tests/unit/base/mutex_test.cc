#include "common/base/mutex.h"

#include <chrono>
#include <stop_token>
#include <thread>

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

using std::chrono::milliseconds;

class Counter {
 public:
  void Add() {
    const MutexLock lock(mutex_);
    ++count_;
    changed_.NotifyAll();
    stoppable_.NotifyAll();
  }
  void Await(int count) {
    const MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&]() RINGMASTER_REQUIRES(mutex_) { return count_ >= count; });
  }
  bool AwaitFor(milliseconds limit, int count) {
    const MutexLock lock(mutex_);
    return changed_.WaitFor(mutex_, limit,
                            [&]() RINGMASTER_REQUIRES(mutex_) { return count_ >= count; });
  }
  bool AwaitOrStop(const std::stop_token& stop, int count) {
    const MutexLock lock(mutex_);
    return stoppable_.Wait(mutex_, stop,
                           [&]() RINGMASTER_REQUIRES(mutex_) { return count_ >= count; });
  }
  // Releases the mutex while another thread increments the counter, and returns the counter.
  int LetGo() {
    const MutexLock lock(mutex_);
    {
      const MutexUnlock unlocked(mutex_);
      std::jthread([this] { Add(); }).join();
    }
    return count_;
  }
  int LetGoAndTakeAgain() {
    MutexLock lock(mutex_);
    lock.Unlock();
    std::jthread([this] { Add(); }).join();
    lock.Lock();
    return count_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  StoppableCondVar stoppable_;
  int count_ RINGMASTER_GUARDED_BY(mutex_) = 0;
};

TEST(Mutex, IsFreeForOthersWhileItsHolderLetsGo) {
  Counter counter;

  EXPECT_EQ(counter.LetGo(), 1);
  EXPECT_EQ(counter.LetGoAndTakeAgain(), 2);
  EXPECT_EQ(counter.LetGo(), 3);
}

TEST(CondVar, ReturnsOnceItsConditionHolds) {
  Counter counter;
  const std::jthread other([&] {
    for (int i = 0; i < 100; ++i) counter.Add();
  });

  counter.Await(100);

  EXPECT_TRUE(counter.AwaitFor(milliseconds(0), 100));
  EXPECT_FALSE(counter.AwaitFor(milliseconds(1), 101));
}

TEST(StoppableCondVar, ReturnsOnceItIsAskedToStop) {
  Counter counter;
  std::stop_source stop;
  const std::jthread other([&] {
    counter.Add();
    stop.request_stop();
  });

  EXPECT_TRUE(counter.AwaitOrStop({}, 1));
  EXPECT_FALSE(counter.AwaitOrStop(stop.get_token(), 2));
}

}  // namespace
}  // namespace ringmaster
