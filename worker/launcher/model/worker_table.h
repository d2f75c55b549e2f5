#pragma once

// The launcher's table of worker Pods, by UID and by connection. A value; the job makes all
// decisions.

#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/base/clock.h"
#include "common/control/agent_launcher_messages.h"
#include "worker/launcher/model/actions.h"
#include "worker/launcher/model/next_world.h"

namespace ringmaster::launcher {

// Whether a Pod may be part of the next world.
enum class Standing {
  kTrusted,
  kSilent,           // given up by the next world; until that starts it may come back
  kFenced,           // never again: another Pod replaces it
  kFencedInSilence,  // the same for a silent one: its state is unknown
  kDead,             // never again: it certainly has ended
};

// The process in a slot, as its agent reports it (elastic jobs).
struct Process {
  std::string loaded;  // Member::start of the one that can join a world; empty: none
  Clock::Time loaded_at{};
  std::optional<control::RankExit> exit;  // of the newest that ended
  Clock::Time ended_at{};
  bool replaced = false;     // another one has loaded since
  control::RankStack stack;  // the newest that its agent sent
};

// A worker Pod that has said hello, or that another launcher's world named; for as long as the
// launcher lives.
struct Worker {
  using Time = Clock::Time;

  control::AgentHello hello;
  std::optional<ConnectionId> connection;
  std::optional<control::AgentReady> ready;  // of this connection
  bool repeated = false;  // this connection has brought everything that still held at its start
  std::string address;    // the newest that it reported
  int ssh_port = 0;
  Time last_heard{};
  Time disconnected_at{};
  Time welcomed_at{};
  Time ready_since{};
  std::optional<control::DataCacheProgress> filling;  // its data cache, until it is ready
  Time filled_at{};                                   // when that moved last
  std::map<int, Process> processes;                   // by slot
  std::set<MemberId> stopping;  // its ranks of a world that went on without it
  control::Epoch prepared;      // the highest that we asked it to accept
  control::Epoch told;          // the newest world that this connection was told
  bool leaving = false;
  Standing standing = Standing::kTrusted;

  bool Silent() const {
    return standing == Standing::kSilent || standing == Standing::kFencedInSilence;
  }
  bool Fenced() const { return standing >= Standing::kFenced; }
  bool Dead() const { return standing == Standing::kDead; }
  bool Trusted() const { return standing == Standing::kTrusted; }
  void Fence();

  // It can take part in a world that starts now.
  bool IsReady() const;
  // It will be ready once its data cache has been filled.
  bool IsFilling() const;
};

class WorkerTable {
 public:
  using Workers = std::map<std::string, Worker>;

  // Null if it never sent a hello.
  const Worker* Find(const std::string& pod_uid) const;
  Worker* Find(const std::string& pod_uid);
  const Worker& At(const std::string& pod_uid) const { return workers_.at(pod_uid); }
  Worker& At(const std::string& pod_uid) { return workers_.at(pod_uid); }
  // Adds one that is not there.
  Worker& Entry(const std::string& pod_uid) { return workers_[pod_uid]; }
  Worker* ByConnection(ConnectionId connection);

  // REQUIRES: the worker is one of ours, and its hello says who it is.
  void Connect(Worker& worker, ConnectionId connection);
  // Forgets the worker's connection. REQUIRES: it has one.
  void Disconnect(Clock::Time now, Worker& worker);
  // Those that said hello → Pod UID.
  const std::map<ConnectionId, std::string>& connections() const { return connections_; }

  Workers::iterator begin() { return workers_.begin(); }
  Workers::iterator end() { return workers_.end(); }
  Workers::const_iterator begin() const { return workers_.begin(); }
  Workers::const_iterator end() const { return workers_.end(); }

 private:
  Workers workers_;  // by Pod UID
  std::map<ConnectionId, std::string> connections_;
};

}  // namespace ringmaster::launcher
