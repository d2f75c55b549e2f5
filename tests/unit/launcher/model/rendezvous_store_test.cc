#include "worker/launcher/model/rendezvous_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

constexpr control::Epoch kEpoch{1, 2};

class Store : public testing::Test {
 protected:
  Store() { store.Reset(kEpoch, 1); }
  std::vector<RendezvousStore::Answer> Set(const std::string& key, const std::string& value) {
    return store.Set({kEpoch, key, value});
  }
  std::vector<RendezvousStore::Answer> Get(int rank, int64_t id, std::vector<std::string> keys) {
    return store.Get("uid-" + std::to_string(rank), {kEpoch, id, rank, std::move(keys)});
  }
  // Stores the addresses of a Gloo world, and returns whether the store took them.
  bool TakesAddresses(int ranks) {
    store.Reset(kEpoch, ranks);
    const std::string address(136, 'a');
    const auto key = [](int from, int to) {
      return "gloo/" + std::to_string(from) + "/" + std::to_string(to);
    };
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::string> keys;
      for (int peer = 0; peer < ranks; ++peer) keys.push_back(key(peer, rank));
      Get(rank, 1, keys);
    }
    for (int rank = 0; rank < ranks && store.refusal().empty(); ++rank) {
      for (int peer = 0; peer < ranks; ++peer) Set(key(rank, peer), address);
    }
    return store.refusal().empty();
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

TEST_F(Store, AnswersARequestWithoutKeys) { EXPECT_EQ(Get(0, 1, {}).size(), 1U); }

TEST_F(Store, AnswersARepeatedQuestionOnce) {
  Get(0, 1, {"a"});
  Get(0, 1, {"a"});

  EXPECT_EQ(Set("a", "1").size(), 1U);
}

TEST_F(Store, ForgetsWithTheEpoch) {
  Set("a", "1");
  Get(0, 1, {"b"});
  store.Reset({1, 3}, 3);

  EXPECT_TRUE(store.Set({{1, 3}, "b", "2"}).empty());
  EXPECT_TRUE(store.Get("uid-0", {{1, 3}, 2, 0, {"a"}}).empty());
}

TEST_F(Store, IgnoresOtherEpochs) {
  EXPECT_TRUE(store.Set({{1, 1}, "a", "old"}).empty());

  EXPECT_TRUE(Get(0, 1, {"a"}).empty());
}

TEST_F(Store, KeepsAtMostSixteenMebibytesForAFewRanks) {
  const std::string half(8 << 20, 'x');
  Set("a", half);
  Set("b", half.substr(3000));
  EXPECT_EQ(store.refusal(), "");
  Set("c", std::string(6000, 'y'));
  EXPECT_EQ(store.refusal(),
            "the addresses and other values that the ranks store in the launcher need more than 16 "
            "MiB, the limit for 1 rank; set fewer or smaller values");
  EXPECT_TRUE(Get(0, 1, {"c"}).empty());

  Set("a", "small");  // replacing a value frees the space of the old one
  EXPECT_EQ(Set("c", half).size(), 1U);
}

TEST_F(Store, KeepsTheAddressesOfLargeWorldsUpToALimit) {
  EXPECT_TRUE(TakesAddresses(320));
  EXPECT_LE(RendezvousStore::LimitFor(RendezvousStore::kMaxGlooRanks),
            RendezvousStore::kMaxBytes - 1);
  EXPECT_EQ(RendezvousStore::LimitFor(RendezvousStore::kMaxGlooRanks + 1),
            RendezvousStore::kMaxBytes);
  EXPECT_EQ(RendezvousStore::LimitFor(16'384), RendezvousStore::kMaxBytes);

  store.Reset(kEpoch, 2000);
  for (int i = 0; i < 33; ++i) Set(std::to_string(i), std::string(8 << 20, 'x'));
  EXPECT_THAT(
      store.refusal(),
      testing::HasSubstr("need more than 256 MiB, the limit for 2000 ranks; Gloo can connect "
                         "at most 991 ranks: reduce spec.worker.replicas"));
  store.Reset(kEpoch, 2000);
  EXPECT_EQ(store.refusal(), "");
}

TEST_F(Store, AnswersWithoutValuesIfTheyDoNotFitIntoAMessage) {
  const std::string mebibyte(1 << 20, 'x');
  Set("k", mebibyte);
  EXPECT_EQ(Get(0, 1, std::vector<std::string>(10, "k")).at(0).values.values.size(), 10U);
  EXPECT_EQ(store.refusal(), "");

  const auto answers = Get(1, 2, std::vector<std::string>(2000, "k"));

  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].pod_uid, "uid-1");
  EXPECT_EQ(answers[0].values.id, 2);
  EXPECT_TRUE(answers[0].values.values.empty());
  EXPECT_EQ(store.refusal(),
            "rank 1 requested more values from the rendezvous store than fit into one message (11 "
            "MiB); set smaller values, or request fewer at once");
}

TEST_F(Store, CountsTheKeysThatAreAskedFor) {
  const std::string half(1 << 19, 'x');
  for (int id = 0; id < 15; ++id) Get(0, id, {half + "a", half + "b"});
  EXPECT_EQ(store.refusal(), "");
  const auto refused = Get(0, 15, {half + "a", half + "b"});
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_TRUE(refused[0].values.values.empty());
  EXPECT_NE(store.refusal(), "");
  Set("c", std::string(2 << 20, 'x'));
  EXPECT_TRUE(Get(0, 16, {"c"}).empty());

  Get(0, 3, {"small"});  // replacing a request frees the space of the old one
  EXPECT_EQ(Set("c", half).size(), 1U);
  EXPECT_EQ(Set(half + "a", "").size(), 0U);
  EXPECT_EQ(Set(half + "b", "").size(), 14U);  // answering requests frees their space
  Set("d", std::string(12 << 20, 'x'));
  EXPECT_TRUE(Get(0, 17, {"d"}).at(0).values.values.empty()) << "too large for a message";
  EXPECT_EQ(Get(0, 18, {"c"}).at(0).values.values.at(0), half);
}

}  // namespace
}  // namespace ringmaster::launcher
