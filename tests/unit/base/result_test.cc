#include "common/base/result.h"

#include <memory>

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> good = 7;
  const Result<int> bad = Error{ErrorKind::kNotFound, "no such Pod"};

  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 7);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().kind, ErrorKind::kNotFound);
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);

  const std::unique_ptr<int> taken = *std::move(result);

  EXPECT_EQ(*taken, 3);
}

TEST(Result, PutsTheContextBeforeTheMessage) {
  const Error error{ErrorKind::kTimeout, "no answer in 2 s"};

  EXPECT_EQ(error.WithContext("asking the launcher").message,
            "while asking the launcher: no answer in 2 s");
  EXPECT_EQ(error.WithContext("asking the launcher").kind, ErrorKind::kTimeout);
}

}  // namespace
}  // namespace ringmaster
