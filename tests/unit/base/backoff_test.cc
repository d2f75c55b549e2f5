#include "common/base/backoff.h"

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, DoublesUntilItsLimit) {
  const BackoffOptions options{.initial = milliseconds(100), .limit = milliseconds(1000)};
  const struct {
    int failures;
    int expected_millis;
  } cases[] = {{1, 100}, {2, 200}, {3, 400}, {4, 800}, {5, 1000}, {6, 1000}, {1'000'000, 1000}};

  for (const auto& c : cases) {
    EXPECT_EQ(BackoffDelay(options, c.failures, 0.5), milliseconds(c.expected_millis))
        << c.failures << " failures";
  }
}

TEST(Backoff, StretchesTheDelayByTheJitterAlone) {
  const BackoffOptions options{
      .initial = milliseconds(100), .limit = milliseconds(1000), .jitter = 1.0};

  EXPECT_EQ(BackoffDelay(options, 1, 0.0), milliseconds(100));
  EXPECT_EQ(BackoffDelay(options, 1, 0.5), milliseconds(150));
  EXPECT_EQ(BackoffDelay(options, 20, 0.99), milliseconds(1990));
}

TEST(Backoff, TreatsNoFailureLikeTheFirst) {
  EXPECT_EQ(BackoffDelay({.initial = milliseconds(70)}, 0, 0.0), milliseconds(70));
}

}  // namespace
}  // namespace ringmaster
