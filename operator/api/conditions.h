#pragma once

// Updates conditions as Kubernetes does: one per type, and lastTransitionTime changes only with the
// status. Pure functions.

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/types.h"

namespace ringmaster::api {

// Adds the condition or replaces the one of its type. `now` is RFC 3339.
void SetCondition(std::vector<Condition>& conditions, Condition condition, const std::string& now);

// Null if there is none. The pointer is valid while `conditions` is unchanged.
const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type);

bool IsTrue(const std::vector<Condition>& conditions, std::string_view type);

// Succeeded or Failed: nothing of the job runs any more.
bool IsTerminal(const TrainingJobStatus& status);

}  // namespace ringmaster::api
