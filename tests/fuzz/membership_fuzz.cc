// Fuzzes the launcher's state machine with events in any order. It must not crash, open the gate
// for a wrong set of processes, send two verdicts, succeed unless all ranks were done, send
// messages to a fenced Pod, or start an epoch that is not higher than the previous one.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "common/base/log.h"
#include "worker/launcher/coordinator/coordinator.h"

namespace {

using namespace ringmaster;
using namespace ringmaster::launcher;

constexpr int kWorkers = 4;

class Story {
 public:
  explicit Story(bool elastic) : elastic_(elastic), membership_(Options(elastic)) {
    Check(membership_.OnMpiVersion(now_, "4.1.4"));
  }

  void Step(uint8_t what, uint8_t detail) {
    const int worker = detail % kWorkers;
    const ConnectionId connection = connections_[worker];
    const auto say = [&](const control::Message& message) {
      Check(membership_.OnMessage(now_, connection, message));
    };
    // Use mostly the current epoch and cohort, and sometimes the previous one.
    control::Epoch epoch = membership_.epoch();
    epoch.number -= detail >> 7U;
    switch (what % 26) {
      case 0:
        Order(detail);
        break;
      case 1:
        Hello(worker, detail);
        break;
      case 2:
        say(control::AgentReady{"10.0.0." + std::to_string(worker), 22, {}, {}});
        break;
      case 3:
        say(control::AgentReady{"10.0.0." + std::to_string(worker), 22, {{"x", "y"}}, {}});
        break;
      case 4:
        say(control::SlotAttached{epoch.number, detail >> 6U & 1, detail >> 2U & 7, size_});
        break;
      case 5:
        AttachAll();
        break;
      case 6:
        Exit(worker, epoch, detail);
        break;
      case 7:
        say(control::RankDone{epoch, detail >> 2U & 7});
        break;
      case 8:
        say(control::AgentLeaving{"x"});
        break;
      case 9:
        Check(membership_.OnClosed(now_, connection));
        break;
      case 10:
        Check(membership_.OnMpirunExited(now_, epoch.number, {detail >> 2U, 0, "", {}}));
        break;
      case 11:
        Pass(detail);
        break;
      case 12:
        say(control::StoreGet{epoch, detail, worker, {"a"}});
        break;
      case 13:
        say(control::StoreSet{epoch, "a", "b"});
        break;
      case 14:
      case 15:
        say(control::RankReady{0, Start(detail)});
        break;
      case 16:
      case 17:
        say(control::EpochAccepted{prepared_});
        break;
      case 18:
        say(control::RankAtBoundary{epoch, detail >> 2U & 3, detail});
        break;
      case 19:
        say(control::RankBroken{epoch, detail >> 2U & 3, detail >> 4U & 3, "x"});
        break;
      case 20:
        say(control::RankProgress{epoch, {detail, 0, 1, 1, -1}});
        break;
      case 21:
        Report(worker, detail);
        break;
      case 22:
        Check(membership_.OnProbe(now_, std::to_string(worker), (detail & 4) != 0));
        break;
      case 23:
        Positions(worker, epoch, detail);
        break;
      case 24:
        say(control::RankStack{detail >> 6U, Start(detail), "x", "y"});
        break;
      default:
        say(control::SlotOutput{0, detail, false, "x\n"});
        break;
    }
    static_cast<void>(membership_.Status(now_));
  }

 private:
  static CoordinatorOptions Options(bool elastic) {
    CoordinatorOptions options;
    options.term = 2;
    options.job_uid = "j";
    options.agent_token = "t";
    options.elastic = elastic;
    options.stall_floor = std::chrono::milliseconds(50);
    return options;
  }

  void Order(uint8_t detail) {
    control::Order order;
    order.stamp = {0, ++generation_};
    for (int i = 0; i < kWorkers; ++i) {
      if ((detail >> i & 1) != 0) order.workers.push_back({std::to_string(i), "pod", "node", i});
    }
    order.replicas = static_cast<int>(order.workers.size());
    order.min_replicas = detail >> 6U == 0 ? order.replicas : std::min(1, order.replicas);
    if (detail >> 6U == 3) order.dead.push_back(std::to_string(detail >> 4U & 3));
    auto actions = membership_.OnOrder(now_, order);
    if (actions.ok()) Check(std::move(*actions));
  }

  void Hello(int worker, uint8_t detail) {
    connections_[worker] = ++next_connection_;
    control::AgentHello hello;
    hello.token = "t";
    hello.job_uid = "j";
    hello.pod_uid = std::to_string(worker);
    hello.pod = "pod";
    hello.nonce = (detail & 64) != 0 ? "b" : "a";
    Check(membership_.OnHello(now_, connections_[worker], hello));
  }

  static std::string Start(uint8_t detail) { return std::string(1, 'a' + (detail >> 2U & 1)); }

  void Report(int worker, uint8_t detail) {
    control::WorldReport report{{detail >> 7U == 0 ? 1 : 2, detail >> 5U & 3}, {}, {Start(detail)}};
    for (int i = 0; i <= (detail >> 3U & 3); ++i) {
      report.members.push_back({std::to_string(i), "pod", "node", "10.0.0.1", 0, "a", i});
    }
    Check(membership_.OnMessage(now_, connections_[worker], report));
  }

  void Positions(int worker, const control::Epoch& epoch, uint8_t detail) {
    control::RankPosition position;
    position.rank = detail >> 2U & 3;
    position.entered = (detail & 16) != 0;
    position.phase = static_cast<control::RankPhase>(detail >> 4U & 7);
    position.step = detail >> 5U;
    position.step_micros = position.own_micros = 1 + detail;
    Check(membership_.OnMessage(now_, connections_[worker],
                                control::RankPositions{epoch, {position}}));
  }

  void Exit(int worker, const control::Epoch& epoch, uint8_t detail) {
    control::RankExited exited{epoch, {}};
    exited.exit.start = (detail >> 4U & 1) == 0 ? "a" : "b";
    exited.exit.exit_code = detail >> 2U & 3;
    if ((detail >> 5U & 1) != 0) {
      exited.exit.exit_code = -1;
      exited.exit.signal = 9;
    }
    Check(membership_.OnMessage(now_, connections_[worker], exited));
  }

  void AttachAll() {
    const StartMpirun start = start_;
    int rank = 0;
    for (const Host& host : start.hosts) {
      Check(
          membership_.OnMessage(now_, connections_[std::stoi(host.pod_uid)],
                                control::SlotAttached{start.cohort, 0, rank++, start.world_size}));
    }
  }

  void Pass(uint8_t detail) {
    for (int i = 0; i < (detail & 31); ++i) {
      now_ += std::chrono::milliseconds(100);
      if ((detail & 32) != 0) {
        for (const ConnectionId connection : connections_) {
          Check(membership_.OnMessage(now_, connection, control::Heartbeat{}));
        }
      }
      Check(membership_.OnTick(now_));
    }
  }

  void Check(Actions actions) {
    Look(actions);
    Look(membership_.Settle(now_));
  }

  void Look(const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* all = std::get_if<SendToAll>(&action)) {
        Actions each;
        for (const ConnectionId connection : all->connections) {
          each.push_back(SendTo{connection, all->message});
        }
        Look(each);
        continue;
      }
      if (finished_ && !std::holds_alternative<SendTo>(action) &&
          !std::holds_alternative<Drop>(action) && !std::holds_alternative<Refuse>(action)) {
        std::abort();  // nothing happens after the verdict
      }
      if (const auto* start = std::get_if<StartMpirun>(&action)) {
        start_ = *start;
        size_ = start->world_size;
        released_ = false;
        if (start->world_size != static_cast<int>(start->hosts.size())) std::abort();
      } else if (const auto* send = std::get_if<SendTo>(&action)) {
        if (fenced_.contains(send->connection)) std::abort();
        if (std::holds_alternative<control::Release>(send->message)) released_ = true;
        if (const auto* prepare = std::get_if<control::PrepareEpoch>(&send->message)) {
          prepared_ = prepare->epoch;
        } else if (const auto* epoch = std::get_if<control::StartEpoch>(&send->message)) {
          if (epoch->epoch < started_ && epoch->epoch.term == 2) std::abort();
          started_ = std::max(started_, epoch->epoch);
          size_ = static_cast<int>(epoch->members.size());
        } else if (const auto* change = std::get_if<control::ChangeEpoch>(&send->message)) {
          if (change->epoch < started_ && change->epoch.term == 2) std::abort();
          started_ = std::max(started_, change->epoch);
          size_ = static_cast<int>(membership_.members().size());
        }
      } else if (const auto* refuse = std::get_if<Refuse>(&action)) {
        fenced_.insert(refuse->connection);
      } else if (const auto* finish = std::get_if<Finish>(&action)) {
        if (finished_) std::abort();
        if (finish->verdict.succeeded && elastic_ && !released_ &&
            finish->verdict.clean_exits != size_)
          std::abort();
        finished_ = true;
      }
    }
  }

  const bool elastic_;
  Clock::Time now_{std::chrono::hours(1)};
  Coordinator membership_;
  ConnectionId connections_[kWorkers] = {1001, 1002, 1003, 1004};
  ConnectionId next_connection_ = 0;
  int64_t generation_ = 0;
  StartMpirun start_;
  int size_ = 0;
  control::Epoch prepared_;
  control::Epoch started_;
  std::set<ConnectionId> fenced_;
  bool released_ = false;
  bool finished_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  static const bool kQuiet = [] {
    InitLog("fuzz", "error", LogFormat::kText);
    return true;
  }();
  if (size < 1 || size > 600 || !kQuiet) return 0;
  Story story((data[0] & 1) == 0);
  for (std::size_t i = 1; i + 1 < size; i += 2) story.Step(data[i], data[i + 1]);
  return 0;
}
