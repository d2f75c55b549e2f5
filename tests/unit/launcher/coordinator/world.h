#pragma once

// A Coordinator with a few workers and a clock, and functions that simulate events, so that a test
// reads as a sequence of events. Workers are numbered from 0; worker i is Pod "uid-i" on node
// "node-i", and its connection is 100 + i.

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "common/control/pod_contract.h"
#include "worker/launcher/coordinator/coordinator.h"

namespace ringmaster::launcher {

using namespace std::chrono_literals;

struct World {
  static CoordinatorOptions Options(int slots, bool elastic, int start_attempts = 1) {
    CoordinatorOptions options;
    options.term = 3;
    options.job_uid = "job";
    options.agent_token = "token";
    options.slots = slots;
    options.elastic = elastic;
    options.start_attempts = start_attempts;
    if (!elastic) options.stall_floor = {};
    return options;
  }

  explicit World(int slots = 1, bool elastic = true, int start_attempts = 1)
      : World(Options(slots, elastic, start_attempts)) {}

  explicit World(const CoordinatorOptions& chosen, bool has_mpirun = true)
      : options(chosen), membership(chosen) {
    slots_of_hello = chosen.slots;
    if (has_mpirun) Take(membership.OnMpiVersion(now, "4.1.4"));
  }

  static std::string Uid(int worker) { return "uid-" + std::to_string(worker); }
  static ConnectionId Connection(int worker) { return 100 + worker; }

  control::Order MakeOrder(const std::vector<int>& workers, int replicas, int min_replicas) const {
    control::Order order;
    order.stamp = {1, generation};
    order.replicas = replicas;
    order.min_replicas = min_replicas;
    order.checkpoint = wants_checkpoint;
    for (const int i : workers) {
      order.workers.push_back(
          {Uid(i), "digits-worker-" + std::to_string(i), "node-" + std::to_string(i), i});
    }
    return order;
  }

  void Order(const std::vector<int>& workers, int replicas = -1, int min_replicas = -1) {
    ++generation;
    const int count = replicas < 0 ? static_cast<int>(workers.size()) : replicas;
    auto done =
        membership.OnOrder(now, MakeOrder(workers, count, min_replicas < 0 ? count : min_replicas));
    if (done.ok()) Take(std::move(*done));
  }

  control::AgentHello MakeHello(int worker, const std::string& nonce = "first") const {
    control::AgentHello hello;
    hello.token = "token";
    hello.job_uid = "job";
    hello.pod_uid = Uid(worker);
    hello.pod = "digits-worker-" + std::to_string(worker);
    hello.node = "node-" + std::to_string(worker);
    hello.worker_index = worker;
    hello.slots = slots_of_hello;
    hello.nonce = nonce;
    return hello;
  }

  void Dial(int worker, ConnectionId connection = 0, const std::string& nonce = "first") {
    connections[worker] = connection == 0 ? Connection(worker) : connection;
    Take(membership.OnHello(now, connections[worker], MakeHello(worker, nonce)));
  }

  void Say(int worker, const control::Message& message) {
    Take(membership.OnMessage(now, connections.at(worker), message));
  }

  void Ready(int worker, std::vector<control::PreflightFault> faults = {}) {
    Say(worker, control::AgentReady{"10.0.0." + std::to_string(worker + 1),
                                    2200 + worker,
                                    std::move(faults),
                                    {{"openmpi", "4.1.4"}}});
    if (!options.elastic || !loads) return;
    for (int slot = 0; slot < options.slots; ++slot) {
      std::string& start = starts[{worker, slot}];
      if (start.empty()) start = "first";
      Say(worker, control::RankReady{slot, start});
    }
  }

  // Reports that the agent has restarted the rank in this slot and the rank has loaded.
  void Reload(int worker, const std::string& start, int slot = 0) {
    starts[{worker, slot}] = start;
    Say(worker, control::RankReady{slot, start});
  }

  // Returns the epoch of the last PrepareEpoch sent to agents; {0, 0}: none.
  control::Epoch Prepared() const {
    control::Epoch last;
    for (const SendTo& send : All<SendTo>()) {
      if (const auto* prepare = std::get_if<control::PrepareEpoch>(&send.message)) {
        last = prepare->epoch;
      }
    }
    return last;
  }

  void Accept(const std::vector<int>& workers) {
    const control::Epoch epoch = Prepared();
    for (const int worker : workers) Say(worker, control::EpochAccepted{epoch});
  }

  // Reports that rank 0, on this worker, has committed a step of the current epoch.
  void Commit(int worker, int64_t step) {
    Say(worker, control::RankProgress{membership.epoch(), {step, 1000, 1, 1, -1}});
  }

  void AllAtBoundary(int64_t step) {
    for (const control::Member& member : std::vector(membership.members())) {
      Say(std::stoi(member.pod_uid.substr(4)),
          control::RankAtBoundary{membership.epoch(), member.rank, step});
    }
  }

  // Returns the workers of the current world's members.
  std::vector<int> Members() const {
    std::vector<int> workers;
    for (const control::Member& member : membership.members()) {
      workers.push_back(std::stoi(member.pod_uid.substr(4)));
    }
    return workers;
  }

  // Sends the operator's order for `workers`, which lists the Pods of `dead` as dead.
  void DeclareDead(std::vector<int> dead, const std::vector<int>& workers, int replicas,
                   int min_replicas) {
    ++generation;
    control::Order order = MakeOrder(workers, replicas, min_replicas);
    for (const int worker : dead) order.dead.push_back(Uid(worker));
    auto done = membership.OnOrder(now, order);
    if (done.ok()) Take(std::move(*done));
  }

  void Arrive(int worker) {
    Dial(worker);
    Ready(worker);
  }

  void Attach(int worker, int slot, int mpi_rank, int mpi_world_size) {
    Say(worker, control::SlotAttached{LastStart().cohort, slot, mpi_rank, mpi_world_size});
  }

  // Attaches all processes of the current mpirun correctly.
  void AttachAll() {
    const StartMpirun start = LastStart();
    int rank = 0;
    for (const Host& host : start.hosts) {
      const int worker = std::stoi(host.pod_uid.substr(4));
      for (int slot = 0; slot < host.slots; ++slot) Attach(worker, slot, rank++, start.world_size);
    }
  }

  // Lets time pass in ticks. The workers in `alive` send heartbeats.
  void Pass(std::chrono::milliseconds time, const std::vector<int>& alive) {
    for (auto passed = 0ms; passed < time; passed += 100ms) {
      now += 100ms;
      for (const int worker : alive) Say(worker, control::Heartbeat{});
      Take(membership.OnTick(now));
    }
  }

  void Exit(int worker, int code, int signal = 0, int slot = 0,
            std::vector<std::string> lines = {}) {
    control::RankExited exited;
    exited.epoch = membership.epoch();
    exited.exit.slot = slot;
    if (options.elastic) exited.exit.start = starts[{worker, slot}];
    exited.exit.exit_code = signal > 0 ? -1 : code;
    exited.exit.signal = signal;
    exited.exit.last_lines = std::move(lines);
    Say(worker, exited);
  }

  void Close(int worker) { Take(membership.OnClosed(now, connections.at(worker))); }

  void MpirunEnds(int code, std::vector<std::string> lines = {}, int signal = 0) {
    Take(membership.OnMpirunExited(now, LastStart().cohort, {code, signal, "", std::move(lines)}));
  }

  void Take(Actions more) {
    for (const Action& action : more) {
      if (const auto* start = std::get_if<StartMpirun>(&action)) last_start = *start;
    }
    for (Action& action : more) {
      const auto* all = std::get_if<SendToAll>(&action);
      if (all == nullptr) {
        actions.push_back(std::move(action));
        continue;
      }
      for (const ConnectionId connection : all->connections) {
        actions.push_back(SendTo{connection, all->message});
      }
    }
    // Settles the membership after each event, and performs the actions that follow.
    if (Actions following = membership.Settle(now); !following.empty()) Take(std::move(following));
  }

  template <typename T>
  std::vector<T> All() const {
    std::vector<T> found;
    for (const Action& action : actions) {
      if (const T* one = std::get_if<T>(&action)) found.push_back(*one);
    }
    return found;
  }
  // A world may be started in full (StartEpoch) or as a difference (ChangeEpoch).
  template <typename T>
  static bool Is(const control::Message& message) {
    return std::holds_alternative<T>(message) ||
           (std::is_same_v<T, control::StartEpoch> &&
            std::holds_alternative<control::ChangeEpoch>(message));
  }
  template <typename T>
  int Sent(int worker = -1) const {
    int count = 0;
    for (const SendTo& send : All<SendTo>()) {
      if (Is<T>(send.message) && (worker < 0 || send.connection == connections.at(worker))) ++count;
    }
    return count;
  }
  const StartMpirun& LastStart() const { return last_start; }
  bool Decided() const { return !All<Finish>().empty(); }
  // REQUIRES: Decided().
  std::unique_ptr<Finish> Verdict() const { return std::make_unique<Finish>(All<Finish>().at(0)); }
  control::LauncherPhase phase() const { return membership.phase(); }

  Clock::Time now{std::chrono::hours(1)};
  int64_t generation = 0;
  int slots_of_hello = 1;
  bool wants_checkpoint = false;  // orders request a checkpoint
  bool loads = true;              // ranks send RankReady with AgentReady
  std::map<int, ConnectionId> connections;
  std::map<std::pair<int, int>, std::string> starts;  // by worker and slot
  CoordinatorOptions options;
  Coordinator membership;
  Actions actions;
  StartMpirun last_start;
};

}  // namespace ringmaster::launcher
