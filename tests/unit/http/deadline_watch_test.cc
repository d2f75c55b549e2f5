#include "operator/http/deadline_watch.h"

#include <atomic>
#include <future>

#include <gtest/gtest.h>

namespace ringmaster::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(DeadlineWatch, CallsWhenTheDeadlinePasses) {
  DeadlineWatch watch;
  std::promise<void> later_called;
  std::promise<void> sooner_called;
  const auto now = std::chrono::steady_clock::now();

  const DeadlineWatch::Guard far(watch, now + seconds(3600),
                                 [] { ADD_FAILURE() << "an hour early"; });
  const DeadlineWatch::Guard later(watch, now + milliseconds(20),
                                   [&] { later_called.set_value(); });
  const DeadlineWatch::Guard sooner(watch, now + milliseconds(5),
                                    [&] { sooner_called.set_value(); });

  EXPECT_EQ(sooner_called.get_future().wait_for(seconds(20)), std::future_status::ready);
  EXPECT_EQ(later_called.get_future().wait_for(seconds(20)), std::future_status::ready);
}

TEST(DeadlineWatch, CallsNobodyWhoDisarmed) {
  DeadlineWatch watch;
  std::atomic<bool> called{false};
  std::promise<void> after;
  const auto now = std::chrono::steady_clock::now();

  {
    const DeadlineWatch::Guard disarmed(watch, now + milliseconds(5), [&] { called = true; });
  }
  const DeadlineWatch::Guard later(watch, now + milliseconds(10), [&] { after.set_value(); });

  ASSERT_EQ(after.get_future().wait_for(seconds(20)), std::future_status::ready);
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace ringmaster::http
