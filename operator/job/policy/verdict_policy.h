#pragma once

// Decides whether and how a job has ended, from the launcher Pod's termination message and from
// containers that can never start. A job does not end because its launcher is gone (ADR 10).
// Pure functions.

#include <optional>
#include <string>

#include "common/control/verdict.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"

namespace ringmaster::job {

struct Outcome {
  bool succeeded = false;
  std::string reason;
  std::string message;
  std::optional<control::Verdict> verdict;  // set if the launcher reported the outcome
  std::optional<api::Failure> failure;      // the first failure
};

// Returns the launcher's verdict from its Pod's termination message, if there is one.
std::optional<control::Verdict> VerdictOf(const PodView& launcher);

// Returns why the Pod's container can never start, with the names of the Pod and node. Empty if the
// container may still start, for example while it waits for an image or a slow runtime.
std::string CannotStart(const PodView& pod);

// Returns the outcome, or nothing while the job continues. If the job has trained (`begun`), a
// container that cannot start is a problem of its node and does not end the job. `wall_now` (RFC
// 3339) is the time of failures whose time is unknown.
std::optional<Outcome> JudgeOutcome(const Observed& observed, bool begun,
                                    const std::string& wall_now);

// Returns a text that says which Pod ended and how.
std::string HowItEnded(const PodView& pod);

// Creates an entry of status.failures for a Pod that ended.
api::Failure FailureOf(const PodView& pod, const std::string& wall_now);
// Creates an entry of status.failures for a rank that ended.
api::Failure FailureOf(const control::RankExit& exit, const std::string& reason,
                       const std::string& wall_now);

}  // namespace ringmaster::job
