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

// Parses an RFC 3339 time as Kubernetes writes it (UTC); empty if the text is not one.
std::optional<Clock::WallTime> ParseTime(const std::string& text);

// `text` where it is a time before `now`, else `now`; both as Kubernetes writes them.
std::string NotAfter(const std::string& text, const std::string& now);

// The job with every future time in its status replaced by `now`, or the same job if there is none.
// The expected end of training may be in the future.
std::shared_ptr<const api::TrainingJob> WithoutFutureTimes(
    std::shared_ptr<const api::TrainingJob> job, Clock::WallTime now);

}  // namespace ringmaster::job
