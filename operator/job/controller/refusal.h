#pragma once

// Interprets the API server's refusal of a create: its reason, whether the user caused it, and when
// to retry. Pure functions, used by the actor.

#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "operator/job/model/plan.h"
#include "operator/job/model/violation.h"

namespace ringmaster::job {

// Returns true if a retry with the queue's back-off is enough, for example if the server is busy or
// unreachable. Such errors set no condition.
bool IsTransient(const Error& error);

// Returns true if the API server rejected the request because it could not call an admission
// webhook. This may last, so the job's status reports it like a refusal.
bool IsOfBrokenWebhook(const Error& error);

// Returns true if an admission webhook or a ValidatingAdmissionPolicy rejected the request, even if
// it answered with the HTTP status of an invalid object or of a busy server: another try may be
// admitted.
bool IsFromPolicy(const Error& error);

// Returns true if the API server rejected a create with a transient error that may last, such as
// HTTP 429. Excludes errors of an unreachable server, in which a status cannot be written either.
bool MayLast(const Error& error);

// Returns true if the server certainly did not create the object.
bool CertainlyNotCreated(const Error& error);

// Returns the refusal for an error. REQUIRES: !IsTransient(error), IsOfBrokenWebhook(error), or
// MayLast(error).
// `failures`: consecutive refusals before this one. `of_pod`: the object was a Pod, whose content
// comes from the user's template.
Refusal RefusalOf(const Error& error, bool of_pod, int failures, Clock::Time now);

// Returns the refusal for a spec that is not allowed. If the job has started (`begun`), it keeps
// its Pods but gets no new Pods. Otherwise it waits until its profile allows the spec or, if no
// profile can, until the user corrects the spec. REQUIRES: !violations.empty().
Refusal JudgedRefusal(const std::vector<Violation>& violations, bool begun, Clock::Time now);
bool IsJudged(const Refusal& refusal);

// Returns a refusal for a cause that does not come from the API server.
Refusal MakeRefusal(RefusalCause cause, std::string message, int failures, Clock::Time now);

}  // namespace ringmaster::job
