#pragma once

// Parses the names of margins: arcface, cosface, or combined(m1,m2,m3).

#include <string>

#include "common/base/result.h"
#include "worker/trainer/partial_fc/margin.h"

namespace ringmaster::trainer::partial_fc {

// Returns the margin, with the default scale. kInvalid: unknown name; the message lists all names.
Result<Margin> ParseMargin(const std::string& name);

}  // namespace ringmaster::trainer::partial_fc
