#include "worker/launcher/model/rendezvous_store.h"

#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

constexpr control::Epoch kEpoch{1, 2};

class Store : public testing::Test {
 protected:
  Store() { store.Reset(kEpoch); }
  std::vector<RendezvousStore::Answer> Set(const std::string& key, const std::string& value) {
    auto answers = store.Set({kEpoch, key, value});
    EXPECT_TRUE(answers.ok());
    return *answers;
  }
  std::vector<RendezvousStore::Answer> Get(int rank, int64_t id, std::vector<std::string> keys) {
    auto answers = store.Get("uid-" + std::to_string(rank), {kEpoch, id, rank, std::move(keys)});
    EXPECT_TRUE(answers.ok());
    return *answers;
  }
  RendezvousStore store;
};

TEST_F(Store, AnswersAtOnceWhenEveryKeyExists) {
  Set("a", "1");
  Set("b", std::string("\0\xff", 2));

  const auto answers = Get(3, 7, {"b", "a"});

  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].pod_uid, "uid-3");
  EXPECT_EQ(answers[0].values.id, 7);
  EXPECT_EQ(answers[0].values.rank, 3);
  EXPECT_EQ(answers[0].values.values, (std::vector<std::string>{std::string("\0\xff", 2), "1"}));
}

TEST_F(Store, AnswersEachAskerOnceItsLastKeyComes) {
  EXPECT_TRUE(Get(0, 1, {"a", "b"}).empty());
  EXPECT_TRUE(Get(1, 1, {"b"}).empty());
  EXPECT_TRUE(Set("a", "1").empty());

  EXPECT_EQ(Set("b", "2").size(), 2U);
  EXPECT_TRUE(Set("b", "3").empty());
}

TEST_F(Store, AnswersWhoeverAsksForNothing) { EXPECT_EQ(Get(0, 1, {}).size(), 1U); }

TEST_F(Store, AnswersARepeatedQuestionOnce) {
  Get(0, 1, {"a"});
  Get(0, 1, {"a"});

  EXPECT_EQ(Set("a", "1").size(), 1U);
}

TEST_F(Store, ForgetsWithTheEpoch) {
  Set("a", "1");
  Get(0, 1, {"b"});
  store.Reset({1, 3});

  EXPECT_TRUE(store.Set({{1, 3}, "b", "2"})->empty());
  EXPECT_TRUE(store.Get("uid-0", {{1, 3}, 2, 0, {"a"}})->empty());
}

TEST_F(Store, IgnoresOtherEpochs) {
  EXPECT_TRUE(store.Set({{1, 1}, "a", "old"})->empty());

  EXPECT_TRUE(Get(0, 1, {"a"}).empty());
}

TEST_F(Store, KeepsAtMostSixteenMebibytes) {
  const std::string half(8 << 20, 'x');
  Set("a", half);
  Set("b", half.substr(100));
  EXPECT_FALSE(store
                   .Set({kEpoch, "c",
                         "more than is left, as the keys count too and so does every byte of the "
                         "values, of which "
                         "there were a hundred"})
                   .ok());

  Set("a", "small");  // replacing a value frees the space of the old one
  EXPECT_TRUE(store.Set({kEpoch, "c", half}).ok());
}

TEST_F(Store, CountsTheKeysThatAreAskedFor) {
  const std::string half(1 << 19, 'x');
  for (int id = 0; id < 15; ++id) Get(0, id, {half + "a", half + "b"});
  EXPECT_FALSE(store.Get("uid-0", {kEpoch, 15, 0, {half + "a", half + "b"}}).ok());
  EXPECT_FALSE(store.Set({kEpoch, "c", std::string(2 << 20, 'x')}).ok());

  Get(0, 3, {"small"});  // replacing a request frees the space of the old one
  EXPECT_TRUE(store.Set({kEpoch, "c", half}).ok());
  EXPECT_EQ(Set(half + "a", "").size(), 0U);
  EXPECT_EQ(Set(half + "b", "").size(), 14U);  // answering requests frees their space
  EXPECT_TRUE(store.Set({kEpoch, "d", std::string(12 << 20, 'x')}).ok());
}

}  // namespace
}  // namespace ringmaster::launcher
