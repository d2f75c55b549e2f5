#pragma once

// Corrects times from the clock of another machine, such as a kubelet's in a Pod or an earlier
// leader's in a job's status. A time in the future would delay everything computed from it, so it
// is replaced by the current time and stored as such. Pure functions, used by the reconciler and
// verdict_policy.

#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "operator/api/types.h"

namespace ringmaster::job {

// The time of an RFC 3339 text as Kubernetes writes it (UTC); nothing when it is none.
std::optional<Clock::WallTime> ParseTime(const std::string& text);

// `text` where it is a time before `now`, else `now`; both as Kubernetes writes them.
std::string NotAfter(const std::string& text, const std::string& now);

// The job with every time of the future in its status replaced by `now`, or the same job where
// there is none. When the training is expected to end may lie in the future.
std::shared_ptr<const api::TrainingJob> WithoutFutureTimes(
    std::shared_ptr<const api::TrainingJob> job, Clock::WallTime now);

}  // namespace ringmaster::job
