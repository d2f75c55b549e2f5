// Tests that counts above MPI's 31 bits are rejected before any memory is accessed.

#include <climits>

#include <gtest/gtest.h>

#include "worker/bench/collectives/backend.h"

namespace ringmaster::bench {
namespace {

TEST(MpiBackend, RefusesCountsAboveIntMax) {
  const auto backend = MakeMpiBackend();
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  const trainer::Elements many(nullptr, std::size_t{INT_MAX} + 1, trainer::ElementType::kUint8);

  const Call call{.collective = Collective::kAllReduce, .send = many, .receive = many};
  const Result<void> refused = (*backend)->Start({&call, 1});

  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(refused.error().message.find("2147483648"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace ringmaster::bench
