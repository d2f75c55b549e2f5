#pragma once

// Corrects times from other machines' clocks, such as a kubelet's times in a Pod or an earlier
// leader's times in a job's status. A future time would delay every action that depends on it, so
// these functions replace it with the current time. Pure functions, used by the reconciler and
// verdict_policy.

#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "operator/api/types.h"

namespace ringmaster::job {

// Parses an RFC 3339 time as Kubernetes writes it (UTC). Returns nothing if the text is invalid.
std::optional<Clock::WallTime> ParseTime(const std::string& text);

// Returns `text` if it is a valid time up to `now`, else `now`. Both texts use Kubernetes' format.
std::string NotAfter(const std::string& text, const std::string& now);

// Returns the job with `now` in place of all future times in its status, or the same job if there
// are none. The estimated completion time is not changed.
std::shared_ptr<const api::TrainingJob> WithoutFutureTimes(
    std::shared_ptr<const api::TrainingJob> job, Clock::WallTime now);

}  // namespace ringmaster::job
