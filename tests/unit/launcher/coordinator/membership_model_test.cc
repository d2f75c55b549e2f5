// Tests that Coordinator keeps the guarantees of the protocol, in a small model (model.h), after
// all sequences of a few choices from several starts and after many random walks. When the faults
// of a sequence stop, training must continue.
//
// RINGMASTER_MODEL_WALKS=100000 sets the number of walks; RINGMASTER_MODEL_SEED=7 sets the first
// seed. A failure prints its seed and all choices.

#include <functional>
#include <random>
#include <unordered_set>

#include <gtest/gtest.h>

#include "common/base/log.h"
#include "model.h"
#include "tests/fakes/number_from.h"

namespace ringmaster::launcher::model {
namespace {

using Kind = Choice::Kind;

struct Story {
  Model model;
  std::vector<Choice> choices;

  std::string Tell() const {
    std::string text;
    for (const Choice& choice : choices) text += (text.empty() ? "" : ", ") + ToString(choice);
    return text + "\n" + model.Describe();
  }
};

// Returns a random choice. Faults are less likely than regular events.
Choice Pick(const std::vector<Choice>& choices, std::mt19937_64& random) {
  std::vector<double> weights;
  for (const Choice& choice : choices) {
    switch (choice.kind) {
      case Kind::kToLauncher:
      case Kind::kToAgent:
        weights.push_back(6);
        break;
      case Kind::kDial:
        weights.push_back(4);
        break;
      case Kind::kTick:
        weights.push_back(5);
        break;
      case Kind::kStep:
        weights.push_back(3);
        break;
      case Kind::kNewLauncher:
      case Kind::kKillLauncher:
      case Kind::kGrow:
        weights.push_back(2);
        break;
      default:
        weights.push_back(0.4);
        break;
    }
  }
  std::discrete_distribution<std::size_t> pick(weights.begin(), weights.end());
  return choices[pick(random)];
}

class MembershipModel : public testing::Test {
 protected:
  static void SetUpTestSuite() { InitLog("model", "off", LogFormat::kText); }
};

TEST_F(MembershipModel, TrainsWhenNothingHappens) {
  Model model(3, 3, 1);

  EXPECT_GT(model.steps, 0);
  EXPECT_TRUE(model.Recovers()) << model.Describe();
  EXPECT_EQ(model.broken, "");
}

TEST_F(MembershipModel, HoldsAlongRandomWalks) {
  const int64_t walks = NumberFrom("RINGMASTER_MODEL_WALKS", 200);
  const int64_t first = NumberFrom("RINGMASTER_MODEL_SEED", 1);
  for (int64_t seed = first; seed < first + walks; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const int workers = 3 + static_cast<int>(random() % 2);
    const int wanted = 1 + static_cast<int>(random() % static_cast<std::uint64_t>(workers));
    const int min_replicas = 1 + static_cast<int>(random() % 2);
    const Model::Job job{seed % 3 == 0 ? 2 : 1, seed % 5 != 0};
    Story story{Model(workers, wanted, min_replicas, job), {}};
    story.model.faults_left = 1 + static_cast<int>(random() % 5);
    story.model.settles_late = seed % 2 == 0;
    for (int i = 0; i < 80 && story.model.broken.empty(); ++i) {
      story.choices.push_back(Pick(story.model.Choices(), random));
      story.model.Do(story.choices.back());
    }
    ASSERT_EQ(story.model.broken, "") << "seed " << seed << ": " << story.Tell();
    const bool recovered = story.model.Recovers();
    ASSERT_EQ(story.model.broken, "") << "seed " << seed << ", recovering: " << story.Tell();
    ASSERT_TRUE(recovered) << "seed " << seed << " is stuck: " << story.Tell();
  }
}

// Explores all sequences of up to `depth` choices. Visits each distinct state only once.
void Explore(const Model& start, int depth, std::size_t most) {
  std::unordered_set<std::size_t> seen;
  std::vector<Story> layer = {{start, {}}};
  std::size_t looked_at = 0;
  for (int i = 0; i < depth && looked_at < most; ++i) {
    std::vector<Story> next;
    for (const Story& story : layer) {
      for (const Choice& choice : story.model.Choices()) {
        Story after = story;
        after.choices.push_back(choice);
        after.model.Do(choice);
        ASSERT_EQ(after.model.broken, "") << after.Tell();
        if (!seen.insert(std::hash<std::string>()(after.model.Digest())).second) continue;
        if (++looked_at > most) break;
        Story end = after;
        const bool recovered = end.model.Recovers();
        ASSERT_EQ(end.model.broken, "") << "recovering: " << end.Tell();
        ASSERT_TRUE(recovered) << "stuck: " << end.Tell();
        next.push_back(std::move(after));
      }
    }
    layer = std::move(next);
  }
  EXPECT_GT(looked_at, 100U);
}

std::size_t Most() { return static_cast<std::size_t>(NumberFrom("RINGMASTER_MODEL_WALKS", 120)); }

TEST_F(MembershipModel, HoldsForEveryOrderFromARunningWorld) {
  Model model(3, 3, 1);
  model.faults_left = 2;
  Explore(model, 4, Most());
}

TEST_F(MembershipModel, HoldsForEveryOrderWithTwoSlotsAPod) {
  Model model(2, 2, 1, {2, true});
  model.faults_left = 2;
  Explore(model, 4, Most());
}

TEST_F(MembershipModel, HoldsForEveryOrderWithAProgramOfTheUsersOwn) {
  Model model(3, 2, 1, {2, false});
  model.faults_left = 3;
  Explore(model, 5, Most());
}

// A rank that hangs is killed; if it survives the kill, its Pod is replaced. Training continues.
TEST_F(MembershipModel, ContinuesWithoutARankThatHangs) {
  for (const Kind kind : {Kind::kHang, Kind::kFreeze}) {
    Model model(3, 3, 1, {2, true});

    model.Do({kind, 1, 1});

    EXPECT_TRUE(model.Recovers()) << model.Describe();
    EXPECT_EQ(model.broken, "");
  }
}

TEST_F(MembershipModel, HoldsForEveryOrderWhileAWorldForms) {
  Model model(3, 3, 1);
  model.faults_left = 3;
  model.Do({Kind::kKillRank, 1});
  for (int i = 0; i < 2; ++i) model.Do({Kind::kToLauncher, 1});
  model.faults_left = 2;
  Explore(model, 4, Most());
}

TEST_F(MembershipModel, HoldsForEveryOrderWithTwoLaunchersInAPartition) {
  Model model(4, 4, 1);
  model.faults_left = 9;
  model.Do({Kind::kNewLauncher});
  model.Do({Kind::kCut, 2, 0});
  model.Do({Kind::kCut, 3, 0});
  for (int i = 0; i < 3; ++i) model.Do({Kind::kTick});
  for (const int worker : {2, 3}) {
    model.Do({Kind::kDial, worker, 1});
    model.Do({Kind::kTick});
  }
  model.faults_left = 2;
  Explore(model, 4, Most());
}

TEST_F(MembershipModel, HoldsForEveryOrderWhileAWorldGrows) {
  Model model(3, 1, 1);
  model.faults_left = 9;
  model.Do({Kind::kGrow});
  model.Do({Kind::kTick});
  model.Do({Kind::kStep});
  model.Do({Kind::kTick});
  model.faults_left = 2;
  Explore(model, 4, Most());
}

}  // namespace
}  // namespace ringmaster::launcher::model
