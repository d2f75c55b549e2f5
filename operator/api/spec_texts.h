#pragma once

// The long texts of a spec: reports whether a job's Pods need them, and returns the spec without
// them.

#include "operator/api/types.h"

namespace ringmaster::api {

// Whether the operator creates the job's Pods from its spec.
bool NeedsTexts(const TrainingJob& job);

// Keeps what is read of a job without Pods.
void LeaveTextsOut(TrainingJobSpec::Texts why, TrainingJobSpec& spec);

// Leaves the texts out when they are longer than kMaxTextBytes together, and names the longest.
void BoundTexts(TrainingJobSpec& spec);

}  // namespace ringmaster::api
