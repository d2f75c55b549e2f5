#pragma once

// Decides whether and how a job has ended, from the launcher Pod's termination message and from
// containers that can never start. A launcher that merely disappeared does not end a job (ADR 10).
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
  std::optional<control::Verdict> verdict;  // when the launcher said so itself
  std::optional<api::Failure> failure;      // the first thing that went wrong
};

// The launcher's verdict in its Pod's status, if it left one.
std::optional<control::Verdict> VerdictOf(const PodView& launcher);

// Why this container can never start, in a sentence that names Pod and node; empty when it may yet.
// Waiting for an image or a slow runtime is not such a reason.
std::string CannotStart(const PodView& pod);

// Empty while the job continues. A job that has trained (`begun`) has proved that its containers
// can start: later failures to start are caused by a node. `wall_now` is RFC 3339, for failures
// whose time is unknown.
std::optional<Outcome> JudgeOutcome(const Observed& observed, bool begun,
                                    const std::string& wall_now);

// Which Pod ended, and how, in words.
std::string HowItEnded(const PodView& pod);

// An entry for status.failures about a Pod that ended.
api::Failure FailureOf(const PodView& pod, const std::string& wall_now);
// The same about a rank that ended.
api::Failure FailureOf(const control::RankExit& exit, const std::string& reason,
                       const std::string& wall_now);

}  // namespace ringmaster::job
