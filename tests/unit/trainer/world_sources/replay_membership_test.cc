#include "worker/trainer/world_sources/static/replay_membership.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/memory_store.h"

namespace ringmaster::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr control::Epoch kFirstEpoch{.term = 1, .number = 1};
constexpr control::Epoch kSecondEpoch{.term = 1, .number = 4};
constexpr int64_t kJobSteps = 9;

// Replays a schedule in which a and b compute steps 1 to 4, and then b and c steps 5 to 9.
class ReplayMembership : public testing::Test {
 protected:
  std::unique_ptr<MembershipSource> Member(std::size_t index, int64_t job_steps = kJobSteps) {
    return MakeReplayMembership(
        {.runs = {{.first = 1, .last = 4, .epoch = kFirstEpoch, .members = {"a", "b"}},
                  {.first = 5, .last = 9, .epoch = kSecondEpoch, .members = {"b", "c"}}},
         .members = {"a", "b", "c"}},
        {.member = index, .job_steps = job_steps}, store_);
  }

  // Returns the worlds that both members of a run enter after they have left these epochs.
  std::pair<Result<World>, Result<World>> Both(MembershipSource& one, control::Epoch one_left,
                                               MembershipSource& other, control::Epoch other_left) {
    Result<World> seen = Error{};
    std::jthread waiting([&] { seen = other.AwaitWorld(other_left); });
    Result<World> own = one.AwaitWorld(one_left);
    waiting.join();
    return {std::move(own), std::move(seen)};
  }

  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST_F(ReplayMembership, GivesEachMemberItsRankInEachRunOfSteps) {
  const auto a = Member(0);
  const auto b = Member(1);
  const auto c = Member(2);

  const auto first = Both(*a, {}, *b, {});
  ASSERT_TRUE(first.first.ok() && first.second.ok());
  EXPECT_EQ(first.first->epoch, kFirstEpoch);
  EXPECT_EQ(first.first->rank, 0);
  EXPECT_EQ(first.second->rank, 1);
  EXPECT_EQ(first.second->size, 2);
  EXPECT_TRUE(first.second->one_machine);
  EXPECT_THAT(first.second->members, ElementsAre("a", "b"));
  b->AtBoundary(*first.second, 4);

  const auto second = Both(*b, kFirstEpoch, *c, {});
  ASSERT_TRUE(second.first.ok() && second.second.ok());
  EXPECT_EQ(second.first->epoch, kSecondEpoch);
  EXPECT_EQ(second.first->rank, 0);
  EXPECT_EQ(second.second->rank, 1);
}

TEST_F(ReplayMembership, KeepsWhatTheRunsWriteApart) {
  const auto a = Member(0);
  const auto b = Member(1);
  const auto c = Member(2);
  const auto first = Both(*a, {}, *b, {});
  ASSERT_TRUE(first.first.ok());
  b->AtBoundary(*first.second, 4);
  const auto second = Both(*b, kFirstEpoch, *c, {});
  ASSERT_TRUE(second.first.ok() && second.second.ok());

  ASSERT_TRUE(first.first->store->Set("address", "old").ok());
  ASSERT_TRUE(second.first->store->Set("address", "new").ok());

  const auto found = second.second->store->Get({"address"}, In(std::chrono::seconds(1)));
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(*found, ElementsAre("new"));
}

// A store whose Get() returns the errors that a test sets, and then succeeds.
class SlowStore final : public Store {
 public:
  Result<void> Set(const std::string&, const std::string&) override { return {}; }
  Result<std::vector<std::string>> Get(const std::vector<std::string>& keys,
                                       Deadline deadline) override {
    EXPECT_GT(deadline, std::chrono::steady_clock::now());
    if (errors.empty()) return std::vector<std::string>(keys.size());
    const Error error = errors.back();
    errors.pop_back();
    return error;
  }

  std::vector<Error> errors;
};

TEST_F(ReplayMembership, WaitsForTheOthersForAsLongAsTheStoreIsThere) {
  const auto store = std::make_shared<SlowStore>();
  const auto member = MakeReplayMembership(
      {.runs = {{.first = 1, .last = 4, .epoch = kFirstEpoch, .members = {"a", "b"}}},
       .members = {"a", "b"}},
      {.member = 0, .job_steps = 4}, store);

  store->errors = std::vector(2, Error{ErrorKind::kTimeout, "not yet"});
  EXPECT_TRUE(member->AwaitWorld({}).ok());

  store->errors = {Error{ErrorKind::kUnavailable, "the folder is gone"}};
  const Result<World> none = member->AwaitWorld({});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message,
              HasSubstr("waiting for the members of steps 1 to 4: the folder is gone"));
}

TEST_F(ReplayMembership, LeavesAfterTheLastStepOfARunButFinishesTheJob) {
  const auto b = Member(1);

  EXPECT_FALSE(b->SwitchWanted(kFirstEpoch, 3));
  EXPECT_TRUE(b->SwitchWanted(kFirstEpoch, 4));
  EXPECT_FALSE(b->SwitchWanted(kSecondEpoch, 8));
  EXPECT_FALSE(b->SwitchWanted(kSecondEpoch, kJobSteps)) << "its ranks finish together";
  EXPECT_TRUE(Member(1, 100)->SwitchWanted(kSecondEpoch, kJobSteps)) << "the schedule ends here";
}

TEST_F(ReplayMembership, EndsAMemberThatHasNoMoreSteps) {
  const auto a = Member(0);
  const auto b = Member(1);
  const auto first = Both(*a, {}, *b, {});
  ASSERT_TRUE(first.first.ok());
  a->AtBoundary(*first.first, 4);

  const auto next = a->AwaitWorld(kFirstEpoch);

  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().kind, ErrorKind::kNotFound);
  EXPECT_TRUE(a->Done());
}

TEST_F(ReplayMembership, EndsWithAWorldThatBroke) {
  const auto a = Member(0);
  const auto b = Member(1);
  const auto first = Both(*a, {}, *b, {});
  ASSERT_TRUE(first.second.ok());
  b->Broken(*first.second, 0, "rank 0 went away");

  const auto next = b->AwaitWorld(kFirstEpoch);

  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(next.error().message, HasSubstr("rank 0 went away"));
  EXPECT_FALSE(b->Done());
}

}  // namespace
}  // namespace ringmaster::trainer
