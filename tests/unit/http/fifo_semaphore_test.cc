#include "operator/http/fifo_semaphore.h"

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ringmaster::http {
namespace {

using std::chrono::milliseconds;

TEST(FifoSemaphore, GivesUpAtTheDeadline) {
  FifoSemaphore slots(1);
  const auto held = slots.Acquire({}, {});

  const auto late = slots.Acquire(std::chrono::steady_clock::now() + milliseconds(1), {});

  ASSERT_TRUE(held.ok());
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::kTimeout);
}

TEST(FifoSemaphore, GivesUpWhenStopped) {
  FifoSemaphore slots(1);
  const auto held = slots.Acquire({}, {});
  std::stop_source stop;

  std::optional<Error> error;
  {
    std::jthread waiter([&] { error = slots.Acquire({}, stop.get_token()).error(); });
    stop.request_stop();
  }

  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->kind, ErrorKind::kCancelled);
}

TEST(FifoSemaphore, AWaiterThatGaveUpTakesNoSlotWithIt) {
  FifoSemaphore slots(1);
  {
    const auto held = slots.Acquire({}, {});
    ASSERT_FALSE(slots.Acquire(std::chrono::steady_clock::now() + milliseconds(1), {}).ok());
  }

  EXPECT_TRUE(slots.Acquire(std::chrono::steady_clock::now(), {}).ok());
}

TEST(FifoSemaphore, NeverHandsOutMoreThanItHas) {
  FifoSemaphore slots(3);
  std::atomic<int> holders{0};
  std::atomic<int> most{0};
  std::atomic<int> served{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 200; ++round) {
          const auto slot = slots.Acquire({}, {});
          if (!slot.ok()) return;
          const int now = ++holders;
          int before = most;
          while (now > before && !most.compare_exchange_weak(before, now)) {
          }
          ++served;
          --holders;
        }
      });
    }
  }

  EXPECT_EQ(served, 1600);
  EXPECT_LE(most, 3);
}

}  // namespace
}  // namespace ringmaster::http
