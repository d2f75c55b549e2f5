#pragma once

// Interprets the API server's refusal of a create: whom it concerns, and when to retry. Pure
// functions, used by the actor.

#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "operator/job/model/plan.h"
#include "operator/job/model/violation.h"

namespace ringmaster::job {

// True when trying again at the queue's pace is all there is to do (the server was busy,
// unreachable, changed): not worth a condition.
bool IsTransient(const Error& error);

// Whether the server certainly did not create the object.
bool CertainlyNotCreated(const Error& error);

// REQUIRES: !IsTransient(error). `failures`: refusals in a row before this one. `of_pod`: the
// object was a Pod, whose content comes from the user's template.
Refusal RefusalOf(const Error& error, bool of_pod, int failures, Clock::Time now);

// For a spec that is not allowed. A job that has begun keeps its Pods and gets no more; one that
// has not waits for its profile or, where no profile could allow it, for another spec. REQUIRES:
// !violations.empty().
Refusal JudgedRefusal(const std::vector<Violation>& violations, bool begun, Clock::Time now);
bool IsJudged(const Refusal& refusal);

// The same for reasons that are not the API server's.
Refusal MakeRefusal(const char* reason, std::string message, int failures, Clock::Time now);

}  // namespace ringmaster::job
