#include "operator/runtime/work_queue.h"

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"

namespace ringmaster::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class WorkQueueTest : public testing::Test {
 protected:
  FakeClock clock_;
  WorkQueue queue_{
      clock_,
      {.backoff = {.initial = milliseconds(100), .limit = milliseconds(300'000), .jitter = 0}}};
};

TEST_F(WorkQueueTest, HandsOutEachKeyOnce) {
  queue_.Add("a");
  queue_.Add("b");
  queue_.Add("a");

  EXPECT_EQ(queue_.TryPop(), "a");
  EXPECT_EQ(queue_.TryPop(), "b");
  EXPECT_EQ(queue_.TryPop(), std::nullopt);
}

TEST_F(WorkQueueTest, ReAddsKeyMarkedDirtyWhileProcessing) {
  queue_.Add("a");
  queue_.TryPop();

  queue_.Add("a");
  const auto while_processing = queue_.TryPop();
  queue_.Done("a");
  const auto after = queue_.TryPop();

  EXPECT_EQ(while_processing, std::nullopt);
  EXPECT_EQ(after, "a");
}

TEST_F(WorkQueueTest, SortsWhatIsReadyAndLaterKeysComeAfterIt) {
  for (const char* key : {"c", "a", "b"}) queue_.Add(key);

  queue_.Sort([](const std::string& one, const std::string& other) { return one > other; });
  queue_.Add("d");
  std::string order;
  while (const auto key = queue_.TryPop()) order += *key;

  EXPECT_EQ(order, "cbad");
}

TEST_F(WorkQueueTest, HoldsDelayedKeysUntilTheyAreDue) {
  queue_.AddAfter("a", seconds(5));

  const auto early = queue_.TryPop();
  clock_.Advance(seconds(5));
  const auto due = queue_.TryPop();

  EXPECT_EQ(early, std::nullopt);
  EXPECT_EQ(due, "a");
}

TEST_F(WorkQueueTest, LetsTheEarlierDeadlineWin) {
  queue_.AddAfter("a", seconds(10));
  queue_.AddAfter("a", seconds(2));
  queue_.AddAfter("a", seconds(20));

  clock_.Advance(seconds(2));
  const auto due = queue_.TryPop();
  queue_.Done("a");
  clock_.Advance(seconds(60));

  EXPECT_EQ(due, "a");
  EXPECT_EQ(queue_.TryPop(), std::nullopt) << "one delayed add, one delivery";
}

TEST_F(WorkQueueTest, PostponesAndBacksOffPerKey) {
  EXPECT_EQ(queue_.AddAfterFailure("a"), milliseconds(100));
  EXPECT_EQ(queue_.AddAfterFailure("a"), milliseconds(200));
  EXPECT_EQ(queue_.AddAfterFailure("b"), milliseconds(100));
  EXPECT_EQ(queue_.Failures("a"), 2);
  queue_.Forget("a");
  EXPECT_EQ(queue_.AddAfterFailure("a"), milliseconds(100));
  queue_.Postpone("a", seconds(30));

  clock_.Advance(seconds(29));
  EXPECT_EQ(queue_.TryPop(), "b");
  EXPECT_EQ(queue_.TryPop(), std::nullopt);
  clock_.Advance(seconds(1));
  EXPECT_EQ(queue_.TryPop(), "a");
}

TEST_F(WorkQueueTest, LimitsTheBackOff) {
  milliseconds delay{0};
  for (int i = 0; i < 40; ++i) delay = queue_.AddAfterFailure("a");

  EXPECT_EQ(delay, std::chrono::minutes(5));
}

TEST_F(WorkQueueTest, DrainsAfterShutDown) {
  queue_.Add("a");
  queue_.AddAfter("later", seconds(1));
  queue_.ShutDown();
  queue_.Add("b");
  clock_.Advance(seconds(2));

  const auto queued = queue_.Pop({});
  const bool drained_early = queue_.Drain(milliseconds(0));
  queue_.Done("a");

  EXPECT_EQ(queued, "a");
  EXPECT_FALSE(drained_early);
  EXPECT_TRUE(queue_.Drain(milliseconds(0)));
  EXPECT_EQ(queue_.Pop({}), std::nullopt);
}

TEST_F(WorkQueueTest, TellsHowLongKeysAreInProgress) {
  queue_.Add("a");
  queue_.TryPop();
  clock_.Advance(seconds(3));

  EXPECT_EQ(queue_.LongestInProgress(), seconds(3));
  queue_.Done("a");
  EXPECT_EQ(queue_.LongestInProgress(), seconds(0));
}

TEST(WorkQueue, WakesForADeadlineEarlierThanTheOneWaitedFor) {
  SystemClock clock;
  WorkQueue queue(clock);
  queue.AddAfter("far", seconds(3600));

  std::optional<std::string> popped;
  {
    std::jthread worker([&](std::stop_token stop) { popped = queue.Pop(stop); });
    queue.AddAfter("near", milliseconds(1));
    worker.join();
  }

  EXPECT_EQ(popped, "near");
}

// Workers that take keys from a queue. Counts how often the workers went to sleep, in total.
class CountedWorkers {
 public:
  CountedWorkers(WorkQueue& queue, int count) : queue_(queue) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Work(); });
  }

  ~CountedWorkers() { queue_.ShutDown(); }

  // Adds a key with `add`. Returns true once a worker has processed it.
  bool Handle(const std::string& key, const std::function<void()>& add) {
    std::future<void> handled;
    {
      const std::lock_guard lock(mutex_);
      handled_ = {};
      handled = handled_.get_future();
      key_ = key;
    }
    add();
    return handled.wait_for(seconds(60)) == std::future_status::ready;
  }

  long SleepsUntilTheEnd() {
    queue_.ShutDown();
    threads_.clear();
    return sleeps_;
  }

 private:
  void Work() {
    while (const auto key = queue_.Pop({})) {
      queue_.Done(*key);
      const std::lock_guard lock(mutex_);
      if (*key == key_) handled_.set_value();
    }
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    sleeps_ += usage.ru_nvcsw;
  }

  WorkQueue& queue_;
  std::mutex mutex_;
  std::promise<void> handled_;
  std::string key_;
  std::atomic<long> sleeps_{0};
  std::vector<std::jthread> threads_;
};

constexpr int kIdleWorkers = 100;
constexpr int kAddedKeys = 200;
// Allows a few sleeps per worker and key. If each key woke all workers, there would be 20,000.
constexpr long kFewSleeps = 10 * (kIdleWorkers + kAddedKeys);

TEST(WorkQueue, WakesOneWorkerForAKey) {
  SystemClock clock;
  WorkQueue queue(clock);
  CountedWorkers workers(queue, kIdleWorkers);

  for (int i = 0; i < kAddedKeys; ++i) {
    const std::string key = std::to_string(i);
    ASSERT_TRUE(workers.Handle(key, [&] { queue.Add(key); }));
  }

  EXPECT_LT(workers.SleepsUntilTheEnd(), kFewSleeps);
}

TEST(WorkQueue, WakesOneWorkerForADeadline) {
  SystemClock clock;
  WorkQueue queue(clock);
  queue.AddAfter("far", seconds(3600));
  CountedWorkers workers(queue, kIdleWorkers);

  for (int i = 0; i < kAddedKeys; ++i) {
    const std::string key = std::to_string(i);
    ASSERT_TRUE(workers.Handle(key, [&] { queue.AddAfter(key, milliseconds(2)); }));
  }

  EXPECT_LT(workers.SleepsUntilTheEnd(), kFewSleeps);
}

TEST(WorkQueue, DeadlinesPassWhileWorkersAreBusyWithOtherKeys) {
  SystemClock clock;
  WorkQueue queue(clock);
  CountedWorkers workers(queue, 3);

  for (int i = 0; i < kAddedKeys; ++i) {
    const std::string key = std::to_string(i);
    ASSERT_TRUE(workers.Handle(key, [&] {
      queue.AddAfter(key, std::chrono::microseconds(100 * (i % 7)));
      for (int other = 0; other < 5; ++other) queue.Add("other-" + std::to_string(other));
      queue.AddAfter("later-" + key, milliseconds(i % 3));
    })) << key;
  }
}

TEST(WorkQueue, NeverProcessesAKeyTwiceAtOnceAndLosesNone) {
  SystemClock clock;
  WorkQueue queue(clock);
  constexpr int kKeys = 7;
  std::vector<std::atomic<int>> inside(kKeys);
  std::vector<std::atomic<int>> seen(kKeys);  // value of `wanted` at the last processing
  std::vector<std::atomic<int>> wanted(kKeys);
  std::atomic<bool> overlapped{false};
  {
    std::vector<std::jthread> workers;
    for (int w = 0; w < 4; ++w) {
      workers.emplace_back([&] {
        while (const auto key = queue.Pop({})) {
          const auto index = static_cast<std::size_t>(std::stoi(*key));
          if (++inside[index] != 1) overlapped = true;
          seen[index] = wanted[index].load();
          --inside[index];
          queue.Done(*key);
        }
      });
    }
    for (int round = 0; round < 3000; ++round) {
      const auto index = static_cast<std::size_t>(round % kKeys);
      ++wanted[index];
      queue.Add(std::to_string(index));
    }
    queue.ShutDown();
    EXPECT_TRUE(queue.Drain(seconds(60)));
  }

  EXPECT_FALSE(overlapped);
  for (std::size_t i = 0; i < kKeys; ++i) EXPECT_EQ(seen[i], wanted[i]) << i;
}

}  // namespace
}  // namespace ringmaster::runtime
