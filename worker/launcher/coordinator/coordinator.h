#pragma once

// Decides which workers are members, when mpirun runs, when the start gate opens, how the launcher
// reacts to a loss, and how the job ended. Takes events and the time, and returns actions, which
// launcher.h carries out. It does no I/O, starts no threads and reads no clock, so that tests can
// cover every interleaving. A Coordinator can be copied, for example to test several continuations.
//
// It passes each event to its job: an ElasticJob if the ranks speak the rank protocol, otherwise a
// DirectJob.
//
// Not thread-safe. Each event returns actions in the order in which they must be carried out.

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "worker/launcher/coordinator/direct_job.h"
#include "worker/launcher/coordinator/elastic_job.h"
#include "worker/launcher/model/coordinator_options.h"

namespace ringmaster::launcher {

class Coordinator {
 public:
  using Time = Clock::Time;

  explicit Coordinator(const CoordinatorOptions& options)
      : job_(options.elastic ? Kind(std::in_place_type<ElasticJob>, options)
                             : Kind(std::in_place_type<DirectJob>, options)) {}

  // Applies an order. kConflict: an order with a higher stamp was received earlier.
  Result<Actions> OnOrder(Time now, const control::Order& order) {
    return job().OnOrder(now, order);
  }
  // Call OnMpiVersion() if mpirun was found, or OnNoMpirun() if agents start the ranks because
  // mpirun is missing or not needed. No epoch starts before one of these calls.
  Actions OnMpiVersion(Time now, const std::string& version) {
    return job().OnMpiVersion(now, version);
  }
  Actions OnNoMpirun(Time now) { return job().OnNoMpirun(now); }
  // Messages of agents only update the state. Call Settle() soon after them: it decides once about
  // all messages, so that a thousand messages at a time cause one decision.
  //
  // Handles the first line of a connection.
  Actions OnHello(Time now, ConnectionId connection, const control::AgentHello& hello) {
    return job().OnHello(now, connection, hello);
  }
  // Handles any later line. An unexpected message closes the connection.
  Actions OnMessage(Time now, ConnectionId connection, const control::Message& message) {
    return job().OnMessage(now, connection, message);
  }
  Actions OnClosed(Time now, ConnectionId connection) { return job().OnClosed(now, connection); }
  // Handles the answer to a Probe action.
  Actions OnProbe(Time now, const std::string& pod_uid, bool refused) {
    return job().OnProbe(now, pod_uid, refused);
  }
  Actions Settle(Time now) { return job().Settle(now); }

  Actions OnMpirunExited(Time now, int64_t cohort, const MpirunExit& exit) {
    return job().OnMpirunExited(now, cohort, exit);
  }
  // Call at least once per CoordinatorOptions::heartbeat.
  Actions OnTick(Time now) { return job().OnTick(now); }
  // Handles SIGTERM: the launcher must end without a verdict. A direct job's program ends, too; the
  // ranks of an elastic job wait for the next launcher.
  Actions OnTerminate(Time now) { return job().OnTerminate(now); }
  // Call if the launcher cannot continue. Fails the job with this reason.
  Actions OnOwnFailure(Time now, const std::string& reason, const std::string& message) {
    return job().OnOwnFailure(now, reason, message);
  }

  // Returns the status for the operator. The API server limits its size (status_size.h).
  control::LauncherStatus Status(Time now) const { return job().Status(now); }
  // Returns the message of the status: a sentence that states what the job waits for.
  std::string WaitingText(Time now) const { return job().WaitingText(now); }
  // Returns the step times of the ranks, for metrics. The result does not contain the job's name.
  JobTimes Times(Time now) const { return job().Times(now); }
  control::LauncherPhase phase() const { return job().phase(); }
  // The epoch and members of the newest world that was started or that mpirun is starting.
  const control::Epoch& epoch() const { return job().world().epoch(); }
  const std::vector<control::Member>& members() const { return job().world().members(); }

 private:
  using Kind = std::variant<DirectJob, ElasticJob>;

  Job& job() {
    return std::visit([](Job& one) -> Job& { return one; }, job_);
  }
  const Job& job() const {
    return std::visit([](const Job& one) -> const Job& { return one; }, job_);
  }

  Kind job_;
};

}  // namespace ringmaster::launcher
