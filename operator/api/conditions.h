#pragma once

// Updates conditions as Kubernetes does: one condition per type, and lastTransitionTime changes
// only when the status changes. Pure functions.

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/types.h"

namespace ringmaster::api {

// Adds the condition, or replaces the condition of the same type. `now` is an RFC 3339 time.
void SetCondition(std::vector<Condition>& conditions, Condition condition, const std::string& now);

// Returns the condition, or null if there is none. The pointer is valid until `conditions` changes.
const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type);

bool IsTrue(const std::vector<Condition>& conditions, std::string_view type);

// Returns true if the job has ended: it has succeeded or failed.
bool IsTerminal(const TrainingJobStatus& status);

}  // namespace ringmaster::api
