#pragma once

// Parses the names of margins: arcface, cosface, or combined(m1,m2,m3).

#include <string>

#include "common/base/result.h"
#include "worker/trainer/partial_fc/margin.h"

namespace ringmaster::trainer::partial_fc {

// kInvalid: the name is not valid; the message lists the allowed ones. The scale is unchanged.
Result<Margin> ParseMargin(const std::string& name);

}  // namespace ringmaster::trainer::partial_fc
