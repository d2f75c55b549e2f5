#pragma once

// The launcher's table of worker Pods, by UID and by connection. A value; the job makes all
// decisions.

#include <cstdint>
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
  kSilent,           // not in the next world, but may return until that world starts
  kFenced,           // permanently excluded: another Pod replaces it
  kFencedInSilence,  // like kFenced; it was silent, so it may still run
  kDead,             // permanently excluded: it has certainly ended
};

// The process in a slot, as its agent reports it (elastic jobs).
struct Process {
  std::string loaded;  // Member::start of the process that can join a world; empty: none
  Clock::Time loaded_at{};
  std::optional<control::RankExit> exit;  // exit of the last process that ended
  int64_t last_end = 0;                   // number of the last start that ended; 0: not known
  Clock::Time ended_at{};
  bool replaced = false;     // whether a process has loaded since that exit
  control::RankStack stack;  // the newest stack that the agent sent

  // Returns whether the end of the process `start` is new. An agent may repeat the exit of a member
  // after the exit of a later process in this slot. `nonce`: AgentHello::nonce.
  bool NoteEnd(const std::string& nonce, const std::string& start);
};

// A worker Pod that has sent a hello, or is in a world of another launcher. It is kept until the
// launcher ends.
struct Worker {
  using Time = Clock::Time;

  control::AgentHello hello;
  std::optional<ConnectionId> connection;
  std::optional<control::AgentReady> ready;  // of this connection
  bool repeated = false;  // whether its agent has repeated its reports on this connection
  std::string address;    // the newest address that it reported
  int ssh_port = 0;
  Time last_heard{};
  Time disconnected_at{};
  Time welcomed_at{};
  Time ready_since{};
  std::optional<control::DataCacheProgress> filling;  // state of its data cache, until it is ready
  Time filled_at{};                                   // when its data cache last made progress
  std::map<int, Process> processes;                   // by slot
  std::set<MemberId> stopping;  // its ranks in a world that continued without it
  control::Epoch prepared;      // the highest epoch that it was asked to accept
  control::Epoch told;          // the newest world that was sent on this connection
  bool leaving = false;
  Standing standing = Standing::kTrusted;

  bool Silent() const {
    return standing == Standing::kSilent || standing == Standing::kFencedInSilence;
  }
  bool Fenced() const { return standing >= Standing::kFenced; }
  bool Dead() const { return standing == Standing::kDead; }
  bool Trusted() const { return standing == Standing::kTrusted; }
  void Fence();
  // Returns whether the agent may have sent the SIGTERM that ended a process, which was started at
  // `since`. It ends its processes when it leaves, or after it was without a launcher for long.
  bool MayHaveEnded(const control::RankExit& exit, Time since) const;

  // Returns whether the worker can take part in a world that starts now.
  bool IsReady() const;
  // Returns whether the worker will be ready once its data cache is filled.
  bool IsFilling() const;
};

class WorkerTable {
 public:
  using Workers = std::map<std::string, Worker>;

  // Returns null if the table does not contain the Pod.
  const Worker* Find(const std::string& pod_uid) const;
  Worker* Find(const std::string& pod_uid);
  const Worker& At(const std::string& pod_uid) const { return workers_.at(pod_uid); }
  Worker& At(const std::string& pod_uid) { return workers_.at(pod_uid); }
  // Returns the worker, and adds it if it is missing.
  Worker& Entry(const std::string& pod_uid) { return workers_[pod_uid]; }
  Worker* ByConnection(ConnectionId connection);

  // REQUIRES: the hello of the worker is valid and belongs to this job.
  void Connect(Worker& worker, ConnectionId connection);
  // Removes the worker's connection. REQUIRES: the worker is connected.
  void Disconnect(Clock::Time now, Worker& worker);
  // Maps each connection that has sent a hello to its Pod UID.
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
