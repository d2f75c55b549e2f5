#pragma once

// Removes the texts of a spec if together they are too long or if the job's Pods do not need
// them.

#include "operator/api/types.h"

namespace ringmaster::api {

// Returns true if the operator creates the job's Pods from its spec.
bool NeedsTexts(const TrainingJob& job);

// Removes the texts. Keeps only the fields that are used for jobs without Pods.
void LeaveTextsOut(TrainingJobSpec::Texts why, TrainingJobSpec& spec);

// Removes the texts if together they exceed kMaxTextBytes, and sets longest_text.
void BoundTexts(TrainingJobSpec& spec);

}  // namespace ringmaster::api
