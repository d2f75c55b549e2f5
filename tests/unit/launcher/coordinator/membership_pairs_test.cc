// Tests all pairs of events in all phases: no pair may cause a crash, a message on a connection
// that has ended or to a fenced Pod, or more than one verdict.

#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "common/base/log.h"
#include "world.h"

namespace ringmaster::launcher {
namespace {

using control::LauncherPhase;

struct Event {
  const char* name;
  std::function<void(World&, int worker)> happen;
};

control::WorldReport ReportOf(const World& world, const control::Epoch& epoch) {
  control::WorldReport report{epoch, {}, {"first"}};
  for (int i = 0; i < 3; ++i) {
    report.members.push_back({World::Uid(i), "pod", "node", "10.0.0.1", 0, "first", i});
  }
  static_cast<void>(world);
  return report;
}

void Hello(World& world, int worker, const char* nonce, const control::Epoch& highest) {
  control::AgentHello hello = world.MakeHello(worker, nonce);
  hello.highest_epoch = highest;
  world.connections[worker] += 1000;
  world.Take(world.membership.OnHello(world.now, world.connections[worker], hello));
}

// Returns one or more events of each kind, with each message and each relevant variant of it.
std::vector<Event> Events() {
  using W = World;
  const auto epoch = [](W& w) { return w.membership.epoch(); };
  const auto rank_of = [](W& w, int worker) {
    for (const control::Member& member : w.membership.members()) {
      if (member.pod_uid == W::Uid(worker)) return member.rank;
    }
    return 0;
  };
  return {
      {"order of all",
       [](W& w, int) {
         w.Order({0, 1, 2, 3}, 4, 1);
       }},
      {"order without it",
       [](W& w, int worker) {
         w.Order(worker == 0 ? std::vector{1, 2} : std::vector{0, 2}, 2, 2);
       }},
      {"order of none", [](W& w, int) { w.Order({}, 0, 0); }},
      {"order that buries it",
       [](W& w, int worker) {
         w.DeclareDead({worker}, {0, 1, 2, 3}, 4, 1);
       }},
      {"stale order",
       [](W& w, int) {
         control::Order old = w.MakeOrder({0}, 1, 1);
         old.stamp = {0, 0};
         static_cast<void>(w.membership.OnOrder(w.now, old));
       }},
      {"mpirun's version", [](W& w, int) { w.Take(w.membership.OnMpiVersion(w.now, "4.1.4")); }},
      {"hello", [](W& w, int worker) { Hello(w, worker, "first", {}); }},
      {"hello of a restarted agent", [](W& w, int worker) { Hello(w, worker, "other", {}); }},
      {"hello that knows more",
       [](W& w, int worker) {
         Hello(w, worker, "first", {2, 9});
       }},
      {"hello that follows another",
       [](W& w, int worker) {
         Hello(w, worker, "first", {4, 1});
       }},
      {"data that comes",
       [](W& w, int worker) {
         w.Say(worker, control::DataCacheProgress{1, 2});
       }},
      {"ready", [](W& w, int worker) { w.Ready(worker); }},
      {"ready with a fault",
       [](W& w, int worker) {
         w.Ready(worker, {{"disk", "full"}});
       }},
      {"heartbeat", [](W& w, int worker) { w.Say(worker, control::Heartbeat{}); }},
      {"attach", [](W& w, int worker) { w.Attach(worker, 0, worker, 3); }},
      {"wrong attach", [](W& w, int worker) { w.Attach(worker, 1, 7, 2); }},
      {"killed", [](W& w, int worker) { w.Exit(worker, 0, 9); }},
      {"failed", [](W& w, int worker) { w.Exit(worker, 1); }},
      {"user error", [](W& w, int worker) { w.Exit(worker, 2); }},
      {"clean exit", [](W& w, int worker) { w.Exit(worker, 0); }},
      {"exit of a slot that is none", [](W& w, int worker) { w.Exit(worker, 1, 0, 99); }},
      {"progress", [](W& w, int worker) { w.Commit(worker, 20); }},
      {"done",
       [=](W& w, int worker) {
         w.Say(worker, control::RankDone{epoch(w), rank_of(w, worker)});
       }},
      {"leaving", [](W& w, int worker) { w.Say(worker, control::AgentLeaving{"SIGTERM"}); }},
      {"store set",
       [=](W& w, int worker) {
         w.Say(worker, control::StoreSet{epoch(w), "a", "b"});
       }},
      {"store get",
       [=](W& w, int worker) {
         w.Say(worker, control::StoreGet{epoch(w), 1, worker, {"a"}});
       }},
      {"loaded", [](W& w, int worker) { w.Reload(worker, "second"); }},
      {"loaded in no slot",
       [](W& w, int worker) {
         w.Say(worker, control::RankReady{-1, "second"});
       }},
      {"stack",
       [](W& w, int worker) {
         w.Say(worker, control::RankStack{0, "first", "it hung", "x"});
       }},
      {"positions of ranks that stand still",
       [=](W& w, int) {
         for (int tick = 0; tick < 5; ++tick) {
           w.now += std::chrono::milliseconds(100);
           for (const control::Member& member : std::vector(w.membership.members())) {
             const int one = std::stoi(member.pod_uid.substr(4));
             if (!w.connections.contains(one)) continue;
             control::RankPosition position{.rank = member.rank, .entered = true, .step = 7};
             position.phase =
                 member.rank == 0 ? control::RankPhase::kCompute : control::RankPhase::kReduce;
             w.Say(one, control::RankPositions{epoch(w), {position}});
           }
           w.Take(w.membership.OnTick(w.now));
         }
       }},
      {"accepted", [](W& w, int worker) { w.Accept({worker}); }},
      {"accepted another",
       [](W& w, int worker) {
         w.Say(worker, control::EpochAccepted{{2, 1}});
       }},
      {"report of an old world",
       [](W& w, int worker) {
         w.Say(worker, ReportOf(w, {2, 1}));
       }},
      {"report of this world", [=](W& w, int worker) { w.Say(worker, ReportOf(w, epoch(w))); }},
      {"report of a newer world",
       [](W& w, int worker) {
         w.Say(worker, ReportOf(w, {3, 90}));
       }},
      {"broken",
       [=](W& w, int worker) {
         w.Say(worker, control::RankBroken{epoch(w), rank_of(w, worker), 2, "reset"});
       }},
      {"at the boundary",
       [=](W& w, int worker) {
         w.Say(worker, control::RankAtBoundary{epoch(w), rank_of(w, worker), 30});
       }},
      {"output",
       [](W& w, int worker) {
         w.Say(worker, control::SlotOutput{0, -5, false, "x\n"});
       }},
      {"what agents never say", [](W& w, int worker) { w.Say(worker, control::Shutdown{}); }},
      {"closed", [](W& w, int worker) { w.Close(worker); }},
      {"port refused",
       [](W& w, int worker) { w.Take(w.membership.OnProbe(w.now, W::Uid(worker), true)); }},
      {"port not refused",
       [](W& w, int worker) { w.Take(w.membership.OnProbe(w.now, W::Uid(worker), false)); }},
      {"mpirun ended", [](W& w, int) { w.MpirunEnds(1); }},
      {"a tick",
       [](W& w, int) {
         w.Pass(100ms, {0, 1, 2, 3});
       }},
      {"a late tick",
       [](W& w, int) {
         w.now += 10s;
         w.Take(w.membership.OnTick(w.now));
       }},
      {"all limits passed",
       [](W& w, int) {
         w.Pass(900ms, {0, 1, 2, 3});
       }},
      {"silence",
       [](W& w, int worker) {
         std::vector<int> others = {0, 1, 2, 3};
         std::erase(others, worker);
         w.Pass(500ms, others);
       }},
      {"asked to end", [](W& w, int) { w.Take(w.membership.OnTerminate(w.now)); }},
      {"own failure",
       [](W& w, int) { w.Take(w.membership.OnOwnFailure(w.now, "LauncherError", "x")); }},
  };
}

struct Start {
  LauncherPhase phase;
  World world;
};

// Returns short limits, because time advances in ticks and the number of pairs is large.
CoordinatorOptions ShortLimits(bool elastic) {
  CoordinatorOptions options = World::Options(1, elastic);
  options.lost_after = options.join_window = options.broken_settle = 300ms;
  options.adopt_within = options.adopt_rest_within = options.stop_within = 700ms;
  options.settle = options.peer_lost_settle = 200ms;
  options.stall_floor = 10ms;
  options.stall_end_within = 200ms;
  return options;
}

// Returns worlds of three workers, one in each phase. Worker 3 is connected, but not ordered yet.
std::vector<Start> Starts(bool elastic) {
  std::vector<Start> starts;
  World world(ShortLimits(elastic));
  for (int i = 0; i < 4; ++i) world.Dial(i);
  starts.push_back({LauncherPhase::kWaitingForOrder, world});
  world.Order({0, 1, 2}, 3, 2);
  starts.push_back({LauncherPhase::kWaitingForAgents, world});
  if (elastic) {
    World adopting = world;
    adopting.Say(0, ReportOf(adopting, {2, 7}));
    starts.push_back({LauncherPhase::kAdopting, adopting});
  }
  for (int i = 0; i < 3; ++i) world.Ready(i);
  starts.push_back({LauncherPhase::kStarting, world});
  world.AttachAll();
  world.Commit(0, 10);
  starts.push_back({LauncherPhase::kRunning, world});
  World released = world;
  for (int i = 0; i < 3; ++i) released.Say(i, control::RankDone{released.membership.epoch(), i});
  starts.push_back({LauncherPhase::kRunning, released});
  if (elastic) {
    World switching = world;
    switching.Order({0, 1, 2, 3}, 4, 2);
    switching.Ready(3);
    starts.push_back({LauncherPhase::kRunning, switching});
    switching.AllAtBoundary(20);
    starts.push_back({LauncherPhase::kForming, switching});
    World forming = world;
    forming.Exit(2, 0, 9);
    starts.push_back({LauncherPhase::kForming, forming});
    World below = forming;
    below.Exit(1, 0, 9);
    starts.push_back({LauncherPhase::kPaused, below});
    World apart = world;
    apart.Pass(500ms, {0});
    starts.push_back({LauncherPhase::kPaused, apart});
  }
  World stopping = world;
  stopping.Order({}, 0, 0);
  starts.push_back({LauncherPhase::kStopping, stopping});
  World finished = world;
  finished.Take(finished.membership.OnOwnFailure(finished.now, "LauncherError", "x"));
  starts.push_back({LauncherPhase::kFinished, finished});
  return starts;
}

// Checks the actions that followed an event. `ended`: the connections that have ended.
void Check(World& world, std::set<ConnectionId>& ended, const std::string& story) {
  for (const Action& action : world.actions) {
    if (const auto* send = std::get_if<SendTo>(&action)) {
      ASSERT_FALSE(ended.contains(send->connection))
          << story << ": speaks into an ended connection";
    } else if (const auto* drop = std::get_if<Drop>(&action)) {
      ended.insert(drop->connection);
    } else if (const auto* refuse = std::get_if<Refuse>(&action)) {
      ended.insert(refuse->connection);
    }
  }
  ASSERT_LE(world.All<Finish>().size(), 1U) << story;
  const control::LauncherStatus status = world.membership.Status(world.now);
  ASSERT_EQ(status.phase == LauncherPhase::kPaused, !status.pause_reason.empty()) << story;
  for (const control::WorkerReport& report : status.workers) {
    ASSERT_FALSE(report.fenced && report.ready) << story << ": a fenced Pod is taken for ready";
    ASSERT_FALSE(report.drained && report.member) << story << ": a member is taken for drained";
  }
}

class EveryPair : public testing::TestWithParam<bool> {};

TEST_P(EveryPair, OfEventsInEveryPhase) {
  InitLog("test", "error", LogFormat::kText);
  const std::vector<Event> events = Events();
  int pairs = 0;
  for (const Start& start : Starts(GetParam())) {
    ASSERT_EQ(start.world.phase(), start.phase) << ToString(start.phase);
    for (const Event& first : events) {
      World after_first = start.world;
      after_first.actions.clear();
      std::set<ConnectionId> ended;
      first.happen(after_first, 1);
      const std::string story = std::string(ToString(start.phase)) + ", " + first.name;
      ASSERT_NO_FATAL_FAILURE(Check(after_first, ended, story));
      const std::size_t verdicts = after_first.All<Finish>().size();
      for (const Event& second : events) {
        for (const int worker : {0, 1}) {
          World world = after_first;
          world.actions.clear();
          std::set<ConnectionId> still_ended = ended;
          still_ended.erase(world.connections.at(worker));
          second.happen(world, worker);
          ASSERT_NO_FATAL_FAILURE(
              Check(world, still_ended, story + ", " + second.name + " " + std::to_string(worker)));
          ASSERT_LE(world.All<Finish>().size() + verdicts, 1U) << story << ", " << second.name;
          ++pairs;
        }
      }
    }
  }
  EXPECT_GT(pairs, 10'000);
}

INSTANTIATE_TEST_SUITE_P(Programs, EveryPair, testing::Bool(),
                         [](const auto& test) { return test.param ? "Elastic" : "Direct"; });

}  // namespace
}  // namespace ringmaster::launcher
