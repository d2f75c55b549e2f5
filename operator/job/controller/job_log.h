#pragma once

// A job's start, its end and its refusal, one line each in the operator's log. Called by whoever
// wrote the status that says so.

#include "operator/api/types.h"

namespace ringmaster::job {

void LogJobChange(const api::TrainingJob& before, const api::TrainingJobStatus& after);

}  // namespace ringmaster::job
