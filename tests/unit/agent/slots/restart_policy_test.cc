#include "worker/agent/slots/restart_policy.h"

#include <csignal>

#include <gtest/gtest.h>

namespace ringmaster::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ProcessEnd kKilled{-1, SIGKILL};

TEST(RestartPolicy, StartsAgainUnlessItWouldEndTheSameWay) {
  struct Case {
    ProcessEnd end;
    bool had_world;
    bool again;
  };
  const Case cases[] = {{kKilled, true, true},   {kKilled, false, true},   {{1, 0}, true, true},
                        {{1, 0}, false, true},   {{75, 0}, true, true},    {{0, 0}, true, true},
                        {{0, 0}, false, false},  {{2, 0}, true, false},    {{2, 0}, false, false},
                        {{127, 0}, true, false}, {{127, 0}, false, false}, {{76, 0}, true, false},
                        {{76, 0}, false, false}};
  for (const Case& c : cases) {
    RestartPolicy policy;
    EXPECT_EQ(policy.OnEnd(c.end, seconds(60), c.had_world).has_value(), c.again)
        << c.end.exit_code << (c.had_world ? " in a world" : " before one");
  }
}

TEST(RestartPolicy, WaitsLongerForOneThatDiesSoonAgainAndAgain) {
  RestartPolicy policy;
  for (const int wanted : {0, 1000, 2000, 4000, 8000, 16'000, 30'000, 30'000}) {
    EXPECT_EQ(policy.OnEnd(kKilled, milliseconds(9999), true), milliseconds(wanted));
  }

  EXPECT_EQ(policy.OnEnd(kKilled, seconds(10), true), milliseconds(0)) << "it lived long enough";
  EXPECT_EQ(policy.OnEnd(kKilled, seconds(1), true), milliseconds(0));
  EXPECT_EQ(policy.OnEnd(kKilled, seconds(1), true), milliseconds(1000));
  policy.Forget();
  EXPECT_EQ(policy.OnEnd(kKilled, seconds(1), true), milliseconds(0));
}

TEST(RestartPolicy, AMachineThatCannotStartOneIsAskedAgainButNotAtOnce) {
  RestartPolicy policy;
  EXPECT_EQ(policy.OnCannotStart(), milliseconds(1000));
  EXPECT_EQ(policy.OnCannotStart(), milliseconds(2000));
  EXPECT_EQ(policy.OnEnd(kKilled, seconds(1), true), milliseconds(4000));
}

}  // namespace
}  // namespace ringmaster::agent
