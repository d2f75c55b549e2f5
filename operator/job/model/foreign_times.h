#pragma once

// Times that another machine's clock wrote: a kubelet's in a Pod, an earlier leader's in a job's
// status. One that lies in our future would delay by the difference of the clocks whatever is
// counted from it, so it is taken for now and written down so. Pure; used by the reconciler and by
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
