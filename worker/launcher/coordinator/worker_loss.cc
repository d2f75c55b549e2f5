// Detects lost workers, by their silence or by evidence.

#include <algorithm>

#include "common/base/log.h"
#include "worker/launcher/coordinator/job.h"

namespace ringmaster::launcher {

using control::LauncherPhase;

// Declares members lost that were silent or disconnected for too long; disconnects silent workers.
void Job::JudgeSilence(Time now) {
  for (auto& [uid, worker] : workers_) {
    if (worker.Fenced()) continue;
    const bool silent = worker.connection && now - worker.last_heard > options_.lost_after;
    const bool gone = !worker.connection && now - worker.disconnected_at > options_.redial_within;
    if (world_.Contains(uid) && !worker.Silent()) {
      if (silent) {
        LoseWorker(now, worker, control::kCauseSilence,
                   "no message for " + std::to_string(options_.lost_after.count()) + " ms");
      } else if (gone) {
        LoseWorker(now, worker, control::kCauseAgentLost,
                   "its connection broke and it did not reconnect");
      }
    }
    if (silent && worker.connection) {
      actions_.push_back(Drop{*worker.connection, "no heartbeat"});
      workers_.Disconnect(now, worker);
    }
  }
}

void Job::LoseWorker(Time now, Worker& worker, const std::string& cause,
                     const std::string& reason) {
  if (released_at_) return;  // all ranks have finished, so a loss has no effect
  if (phase_ != LauncherPhase::kStarting && phase_ != LauncherPhase::kRunning) return;
  LogWarn("Lost a worker",
          {{"pod", worker.hello.pod}, {"node", worker.hello.node}, {"reason", reason}});
  worker.Fence();
  Stop(now, NameOf(worker.hello.pod_uid) + " was lost: " + reason, cause.c_str(), &worker);
}

// Call if there is evidence that the worker is dead. This cannot be undone.
void Job::MarkDead(Time now, Worker& worker, const std::string& cause, const std::string& reason) {
  if (worker.Dead() || phase_ == LauncherPhase::kFinished) return;
  const bool fenced = worker.Fenced();
  worker.standing = Standing::kDead;
  const bool member = world_.Contains(worker.hello.pod_uid) && !released_at_ && !fenced;
  if (member && WorldCanChange()) NoteLoss(now, worker, cause, worker.last_heard);
  Fence(worker);
  if (!member || WorldCanChange()) return;
  Stop(now, NameOf(worker.hello.pod_uid) + " was lost: " + reason, cause.c_str(), &worker);
}

// A fenced worker is never admitted again: another Pod takes its place.
void Job::Fence(Worker& worker) {
  worker.Fence();
  checkpoints_.Forget(worker.hello.pod_uid);
  worker.stopping.clear();
  if (!worker.connection) return;
  actions_.push_back(Refuse{*worker.connection, "this Pod was declared lost"});
  workers_.Disconnect(last_tick_, worker);
}

void Job::NoteLoss(Time now, const Worker& worker, const std::string& cause, Time last_sign) {
  LogWarn("Lost a member",
          {{"pod", worker.hello.pod}, {"node", worker.hello.node}, {"cause", cause}});
  recovery_.Lost(now, {cause, worker.hello.pod, worker.hello.node, last_sign, world_.epoch(),
                       CommittedStep(), cause == control::kCauseLeft});
}

}  // namespace ringmaster::launcher
