#include "worker/launcher/model/startup.h"

#include <gtest/gtest.h>

#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"
#include "common/control/reasons.h"

namespace ringmaster::launcher {
namespace {

using namespace std::chrono_literals;

constexpr Clock::Time kBegun{1h};

class StartupTest : public testing::Test {
 protected:
  StartupTest() {
    options_.attach_within = 60s;
    options_.settle = 300ms;
    options_.start_attempts = 2;
    startup_.Begin(kBegun, 5, {{"a", 0}, {"b", 0}});
  }

  Startup::Judgement Judge(Clock::Time now) {
    return startup_.Judge(now, options_,
                          {[this](Clock::Time since) {
                             asked_since_ = since;
                             return heard_;
                           },
                           [](const Startup::Slot& slot) { return slot.first; }, members_});
  }

  std::string ReasonAt(Clock::Time now) {
    const Startup::Judgement judgement = Judge(now);
    return judgement.failure ? judgement.failure->reason : "";
  }

  CoordinatorOptions options_;
  Startup startup_;
  bool heard_ = true;
  Clock::Time asked_since_{};
  std::vector<control::Member> members_ = {{"a", "", "", "", 0, "", 0},
                                           {"b", "", "", "", 0, "", 1}};
};

TEST_F(StartupTest, WaitsForProcessesFromTheNewestOneOn) {
  startup_.Attach(kBegun + 10s, "a", {5, 0, 0, 2});

  EXPECT_EQ(ReasonAt(kBegun + 70s - 1ms), "");
  const Startup::Judgement judgement = Judge(kBegun + 70s);

  ASSERT_TRUE(judgement.failure);
  EXPECT_EQ(judgement.failure->reason, control::kReasonMpirunFailed);
  EXPECT_EQ(judgement.failure->message,
            "mpirun did not start all processes in time; expected 2 (a, b), attached 1 (a)");
  EXPECT_EQ(judgement.failure->exit_code, 1);
}

TEST_F(StartupTest, WhenAllHaveAttachedMpirunMayEnd) {
  startup_.Attach(kBegun, "a", {5, 0, 0, 2});
  startup_.Attach(kBegun, "b", {5, 0, 1, 2});
  startup_.MpirunExited(kBegun, {1, 0, "", {}});

  EXPECT_EQ(ReasonAt(kBegun + 1h), "");
  EXPECT_EQ(startup_.mpirun_exited_at(), kBegun);
}

TEST_F(StartupTest, AnotherSetOfProcessesFailsOnceMoreIsKnownOfIt) {
  startup_.Attach(kBegun, "c", {5, 0, 0, 2});
  startup_.Attach(kBegun + 200ms, "d", {5, 0, 1, 2});

  EXPECT_EQ(ReasonAt(kBegun + 299ms), "");
  EXPECT_EQ(ReasonAt(kBegun + 300ms), control::kReasonWorldMismatch);
}

TEST_F(StartupTest, ReportsWhatIsWrongWithTheSetOfProcesses) {
  struct {
    std::vector<std::pair<std::string, control::SlotAttached>> attached;
    const char* says;
  } const cases[] = {
      {{{"a", {5, 0, 0, 2}}, {"a", {5, 0, 1, 2}}},
       "two processes attached to a; expected 2 (a, b), attached 1 (a)"},
      {{{"c", {5, 0, 0, 2}}},
       "a process attached to c, which is not in this world; expected 2 (a, b), attached 1 (c)"},
      {{{"a", {5, 0, 0, 3}}}, "mpirun's world has 3 ranks; expected 2 (a, b), attached 1 (a)"},
      {{{"a", {5, 0, 0, 2}}, {"b", {5, 0, 0, 2}}},
       "two processes have the same mpirun rank; expected 2 (a, b), attached 2 (a, b)"},
  };
  for (const auto& c : cases) {
    startup_.Begin(kBegun, 5, {{"a", 0}, {"b", 0}});
    for (const auto& [pod_uid, attached] : c.attached) startup_.Attach(kBegun, pod_uid, attached);

    const auto failure = Judge(kBegun + 300ms).failure;

    ASSERT_TRUE(failure) << c.says;
    EXPECT_EQ(failure->reason, control::kReasonWorldMismatch);
    EXPECT_EQ(failure->message, c.says);
  }
}

TEST_F(StartupTest, NamesAsManyProcessesAsFitAFewLines) {
  for (const std::size_t bytes : {std::size_t{600}, std::size_t{601}}) {  // length of two names
    const std::string names[] = {std::string(300, 'a'), std::string(bytes - 302, 'b'), "c"};
    members_.clear();
    std::set<Startup::Slot> expected;
    for (const std::string& name : names) {
      members_.push_back({name, "", "", "", 0, "", 0});
      expected.insert({name, 0});
    }
    startup_.Begin(kBegun, 5, expected);
    for (int i = 0; i < 3; ++i) {
      startup_.Attach(kBegun, names[i], {5, 0, i == 0 ? 0 : 1, 3});
    }

    const std::string said = Judge(kBegun + 300ms).failure.value().message;

    const std::string named =
        " 3 (" + names[0] + ", " + names[1] + (bytes == 600 ? ", c)" : ", ...)");
    EXPECT_NE(said.find("expected" + named), std::string::npos) << said;
    EXPECT_NE(said.find("attached" + named), std::string::npos) << said;
  }
}

TEST_F(StartupTest, MpirunIsRetriedOnceAllMembersHaveReportedAfterItsEnd) {
  startup_.MpirunExited(kBegun, {3, 0, "", {"no route"}});

  EXPECT_FALSE(startup_.mpirun_runs());
  EXPECT_FALSE(Judge(kBegun + 299ms).start_again);
  heard_ = false;
  EXPECT_FALSE(Judge(kBegun + 300ms).start_again);
  EXPECT_EQ(asked_since_, kBegun + 150ms);
  heard_ = true;
  const auto again = Judge(kBegun + 300ms).start_again;

  ASSERT_TRUE(again);
  EXPECT_EQ(*again,
            "mpirun exited with code 3 before all processes were attached; last output: no route");
}

TEST_F(StartupTest, TriesAreCountedUntilAGateOpens) {
  const auto fails = [&] {
    startup_.Begin(kBegun, 6, {{"a", 0}});
    EXPECT_TRUE(startup_.mpirun_runs());
    EXPECT_FALSE(startup_.mpirun_exit());
    startup_.MpirunExited(kBegun, {0, 9, "", {}});
    return Judge(kBegun + 1s).failure;
  };

  EXPECT_FALSE(fails());
  startup_.GateOpened();
  EXPECT_FALSE(fails());
  const auto failure = fails();

  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->exit_code, 1);
  ASSERT_TRUE(failure->first);
  EXPECT_EQ(failure->first->signal, 9);
}

TEST_F(StartupTest, ReportsWhyMpirunFailed) {
  struct {
    MpirunExit exit;
    const char* reason;
  } const cases[] = {
      {{-1, 0, "not found", {}}, control::kReasonMpirunFailed},
      {{control::kExitNoAgent, 0, "", {}}, control::kReasonWorldMismatch},
      {{1, 0, "", {"x", std::string("ssh: ") + control::kNoAgentText}},
       control::kReasonWorldMismatch},
  };
  for (const auto& c : cases) {
    startup_.MpirunExited(kBegun, c.exit);
    EXPECT_EQ(ReasonAt(kBegun + 300ms), c.reason);
  }
}

}  // namespace
}  // namespace ringmaster::launcher
