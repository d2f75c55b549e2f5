#include "worker/agent/slots/store_requests.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::agent {
namespace {

using control::StoreGet;
using control::StoreSet;
using testing::ElementsAre;

class StoreRequestsTest : public testing::Test {
 protected:
  static StoreSet Setting(const std::string& key, const std::string& value) {
    return {{1, 2}, key, value};
  }
  static StoreGet Getting(std::int64_t id) { return {{1, 2}, id, 1, {"key"}}; }

  // Returns all requests in order: "key=value" for a set, "?id" for a get.
  std::vector<std::string> All() const {
    std::vector<std::string> texts;
    for (const control::Message& message : requests.All()) {
      if (const auto* set = std::get_if<StoreSet>(&message)) {
        texts.push_back(set->key + '=' + set->value);
      } else {
        texts.push_back('?' + std::to_string(std::get<StoreGet>(message).id));
      }
    }
    return texts;
  }

  StoreRequests requests;
};

TEST_F(StoreRequestsTest, KeepsTheNewestValueOfAKeyAndQuestionsUntilTheyAreAnswered) {
  requests.Get(Getting(1));
  requests.Get(Getting(2));
  EXPECT_TRUE(requests.Set(Setting("b", "old")));
  EXPECT_TRUE(requests.Set(Setting("a", "")));
  EXPECT_TRUE(requests.Set(Setting("b", "new")));
  requests.Answered(1);

  EXPECT_THAT(All(), ElementsAre("a=", "b=new", "?2"));
}

TEST_F(StoreRequestsTest, ValuesBeyondTheLimitAreForgottenAndReplacedOnesDoNotCount) {
  const std::string most(StoreRequests::kMaxSetBytes - 2, 'x');
  EXPECT_TRUE(requests.Set(Setting("a", most)));
  EXPECT_TRUE(requests.Set(Setting("a", most)));
  EXPECT_TRUE(requests.Set(Setting("b", "")));

  EXPECT_FALSE(requests.Set(Setting("c", "")));
  EXPECT_FALSE(requests.Set(Setting("a", most + 'x'))) << "the old value would be wrong";

  EXPECT_THAT(All(), ElementsAre("b="));
  EXPECT_TRUE(requests.Set(Setting("c", "1")));
}

TEST_F(StoreRequestsTest, OfTooManyQuestionsTheOldestAreForgotten) {
  const auto most = static_cast<std::int64_t>(StoreRequests::kMaxGets);
  for (std::int64_t id = 1; id <= most + 2; ++id) requests.Get(Getting(id));

  ASSERT_EQ(All().size(), StoreRequests::kMaxGets);
  EXPECT_EQ(All().front(), "?3");

  requests.ForgetGets();
  EXPECT_TRUE(All().empty());
}

}  // namespace
}  // namespace ringmaster::agent
